package deploy

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/doctor"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// Health is the state of a unit's main process. Sizes are in bytes.
type Health struct {
	Unit         string `json:"unit"`
	DropIn       string `json:"drop_in"`
	PID          int    `json:"pid,omitempty"`
	Allocator    string `json:"allocator,omitempty"` // as `granary ps` shows it
	Live         uint64 `json:"live_bytes,omitempty"`
	RSS          uint64 `json:"rss_bytes,omitempty"`
	Processes    int    `json:"processes,omitempty"` // the main process and its descendants
	UnderGranary int    `json:"processes_under_granary,omitempty"`
	Healthy      bool   `json:"healthy"`
	Reason       string `json:"reason,omitempty"` // why it is not healthy, or a remark
}

// granary says whether the process runs it, in order or not.
func (h Health) granary() bool { return strings.HasPrefix(h.Allocator, inspect.Granary) }

// sane are rules that the figures of every heap obey. Sums of a busy process are off by at most the
// bound of the snapshot.
var sane = []struct {
	what  string
	holds func(v func(string) uint64, bound uint64) bool
}{
	{"it has allocated nothing", func(v func(string) uint64, _ uint64) bool { return v("allocations") > 0 }},
	{"it freed more than it allocated", func(v func(string) uint64, _ uint64) bool { return v("frees") <= v("allocations") }},
	{"more lives than is in use", func(v func(string) uint64, b uint64) bool { return v("live") <= v("used_spans")+b }},
	{"more is in use than is reserved", func(v func(string) uint64, b uint64) bool { return v("used_spans") <= v("mapped")+b }},
	{"its own structures exceed their memory", func(v func(string) uint64, _ uint64) bool { return v("metadata_used") <= v("mapped_metadata") }},
}

// examine fills in the allocator of a process and the state of its heap; d is its drop-in.
func examine(proc procfs.FS, h *Health, d dropIn) {
	h.Healthy, h.Reason = false, ""
	running, err := inspect.AllocatorOf(proc, h.PID)
	if err != nil {
		h.Reason = proc.Explain(h.PID, err).Error()
		return
	}
	h.Allocator = running.Describe()
	if memory, err := proc.Memory(h.PID); err == nil {
		h.RSS = memory.RSS
	}
	if running.Name != inspect.Granary {
		h.Reason = whyNotGranary(proc, h.PID, d)
		return
	}
	s, err := figures(h, running.How)
	if err != nil {
		h.Reason = err.Error()
		return
	}
	h.Healthy = true
	h.count(proc)
	h.Reason = remark(proc, h, d, s)
}

// figures reads the heap from outside and reports contradictions.
func figures(h *Health, how string) (*inspect.Snapshot, error) {
	target, err := inspect.Open(h.PID)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	s, err := target.Snapshot()
	if err != nil {
		return nil, err
	}
	value := func(name string) uint64 {
		v, _ := s.Value(name)
		return v
	}
	h.Allocator = fmt.Sprintf("%s %s, %s", inspect.Granary, target.Version, how)
	h.Live = value("live")
	for _, rule := range sane {
		if !rule.holds(value, s.Bound) {
			return nil, fmt.Errorf("the figures of its heap contradict each other (%s): please report it", rule.what)
		}
	}
	return s, nil
}

// count counts the descendants that run Granary: forked workers and started programs.
func (h *Health) count(proc procfs.FS) {
	h.Processes, h.UnderGranary = 0, 0
	for _, pid := range proc.Tree(h.PID) {
		r, err := inspect.AllocatorOf(proc, pid)
		if err != nil {
			continue // ended meanwhile
		}
		h.Processes++
		if r.Name == inspect.Granary {
			h.UnderGranary++
		}
	}
}

// whyNotGranary says why a process does not run Granary although its unit is enabled. Redis and nginx write
// their titles over their environment, which then tells nothing.
func whyNotGranary(proc procfs.FS, pid int, d dropIn) string {
	environ, err := proc.Environ(pid)
	has := func(prefix, part string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, prefix) && strings.Contains(v, part) })
	}
	if err != nil || !has("PATH=", "") {
		return "Granary is not in it: it did not get the drop-in's LD_PRELOAD, or refused the library; its log may tell, after a restart"
	}
	if !has("LD_PRELOAD=", d.library()) {
		return "it started without the drop-in's LD_PRELOAD: restart it"
	}
	w := doctor.World{Proc: proc, Sys: "/sys", Etc: "/etc", Library: d.library()}
	if report, err := doctor.Process(w, pid); err == nil {
		for _, f := range report.Findings {
			if f.Check == "preload" {
				return f.What
			}
		}
	}
	return "Granary is not in it"
}

// remark notes that the drop-in or the library is newer than a healthy process.
func remark(proc procfs.FS, h *Health, d dropIn, s *inspect.Snapshot) string {
	if name := differing(d.options, s.Options); name != "" {
		return "runs with another " + name + " than the drop-in says: restart it"
	}
	maps, err := proc.Maps(h.PID)
	if err == nil && slices.ContainsFunc(maps, func(m procfs.Mapping) bool {
		return strings.HasPrefix(filepath.Base(m.Path), "libgranary.") && strings.HasSuffix(m.Path, " (deleted)")
	}) {
		return "runs a library that was replaced since: restart it"
	}
	return ""
}

// differing returns the first option whose value at the start of the process differs from setting.
// It ignores later changes by `granary ctl` or by the program.
func differing(setting string, options []inspect.Option) string {
	want := map[string]string{}
	for row := range strings.SplitSeq(setting, ",") {
		if name, value, ok := strings.Cut(row, ":"); ok {
			want[name] = value
		}
	}
	const variable = "GRANARY_CONF"
	for _, o := range options {
		value, named := want[o.Name]
		switch {
		case o.Source == variable && !named, named && o.Source == "default":
			return o.Name
		case o.Source == variable && !means(value, o):
			return o.Name
		}
	}
	return ""
}

// means reports whether an option has the value that a text names. A text that is no number, such as one with a
// unit, counts as the value.
func means(text string, o inspect.Option) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == o.Word, err != nil && o.Word == "" && text != "true" && text != "false":
		return true
	case text == "true" || text == "false":
		return (text == "true") == (o.Value != 0)
	}
	return err == nil && n == o.Value
}

// errUnhealthy marks a service that started without its allocator or option.
var errUnhealthy = errors.New("unhealthy")

func (h Health) error() error {
	if h.Healthy {
		return nil
	}
	return fmt.Errorf("%s%w", h.Reason, silent{errUnhealthy})
}
