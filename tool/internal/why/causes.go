package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// A Cause is a large part of RSS in words.
type Cause struct {
	Key   string `json:"key"`
	Bytes uint64 `json:"bytes"` // resident: of live memory a part may never have been touched, or be in swap
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// why is the input of the reasons.
type why struct {
	w       Waterfall
	h       *Heap
	regions []procfs.FootprintRegion
	bytes   uint64
}

// most is how many causes are printed.
const most = 3

// explain adds the causes and the summary. Live is one cause, not request and rounding.
func (w *Waterfall) explain(h *Heap, regions []procfs.FootprintRegion) {
	leads := map[string]string{}
	for _, s := range w.Steps {
		r, ok := reasons[s.Key]
		if !ok || s.Bytes <= 0 || s.Sum && s.Key != "live" {
			continue
		}
		bytes := uint64(s.Bytes)
		if s.Key == "live" {
			bytes = uint64(max(0, s.Bytes+w.Bytes("untouched")))
		}
		y := why{*w, h, regions, bytes}
		leads[s.Key] = w.lead(bytes, r.lead(y), r.act(y))
		w.Causes = append(w.Causes, Cause{Key: s.Key, Bytes: bytes, What: r.what(y), Do: w.remedy(r.do(y))})
	}
	slices.SortStableFunc(w.Causes, func(a, b Cause) int { return cmp.Compare(b.Bytes, a.Bytes) })
	w.Causes = w.Causes[:min(most, len(w.Causes))]
	if len(w.Causes) > 0 {
		w.Summary = leads[w.Causes[0].Key]
	}
}

// lead is the summary: the largest cause, its share and the shortest remedy.
func (w Waterfall) lead(bytes uint64, lead, act string) string {
	text := fmt.Sprintf("%.0f %% of %s (%s of %s) is %s", 100*float64(bytes)/float64(max(1, w.RSS)), w.whole(), term.Bytes(bytes), term.Bytes(w.RSS), lead)
	if do := w.remedy(act); do != "" {
		text += "; " + do
	}
	return text + "."
}

// heading names the cause and its size. The row "live" includes memory that is not resident.
func (w Waterfall) heading(c Cause) string {
	resident := term.Bytes(c.Bytes)
	if all := term.Bytes(uint64(max(0, w.Bytes("live")))); c.Key == "live" && all != resident {
		return fmt.Sprintf("%s (%s, of which %s is resident)", titles[c.Key], all, resident)
	}
	return fmt.Sprintf("%s (%s)", titles[c.Key], resident)
}

// remedy names the process; one that has ended has no remedy.
func (w Waterfall) remedy(text string) string {
	if w.PID == 0 {
		return ""
	}
	return strings.ReplaceAll(text, "PID", strconv.Itoa(w.PID))
}

func liveLead(y why) string {
	words := "live"
	if term.Bytes(uint64(max(0, y.w.Bytes("live")))) != term.Bytes(y.bytes) {
		words = "live and resident"
	}
	return words + ": the program allocated it and has not freed it"
}

func liveWhat(y why) string {
	text := fmt.Sprintf("the program holds %s objects", term.Count(y.figure("live_objects")))
	classes := slices.Clone(y.h.Snapshot.Classes)
	slices.SortStableFunc(classes, func(a, b inspect.Class) int { return cmp.Compare(b.LiveBytes(), a.LiveBytes()) })
	var parts []string
	for _, c := range classes[:min(most, len(classes))] {
		if c.Live > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s bytes (%s)", term.Count(c.Live), term.Count(c.Size), term.Bytes(c.LiveBytes())))
		}
	}
	if large := y.figure("large"); large > 0 {
		parts = append(parts, fmt.Sprintf("%s in blocks above 1 MiB (%s)", term.Count(y.figure("large_blocks")), term.Bytes(large)))
	}
	if len(parts) > 0 {
		text += ", mainly " + strings.Join(parts, ", ")
	}
	return text
}

func partialWhat(y why) string {
	classes := slices.DeleteFunc(slices.Clone(y.h.Snapshot.Classes), func(c inspect.Class) bool { return !c.Small || c.Slabs == 0 })
	slices.SortStableFunc(classes, func(a, b inspect.Class) int { return cmp.Compare(b.WasteBytes(), a.WasteBytes()) })
	text := "live objects pin pages that are mostly free"
	var parts []string
	for _, c := range classes[:min(most, len(classes))] {
		used := c.LiveBytes()
		parts = append(parts, fmt.Sprintf("%s bytes (%s, %s in use)", term.Count(c.Size), term.Bytes(c.Slabs*c.SlabBytes-c.CleanBytes),
			term.Percent(float64(used), float64(c.Slabs*c.SlabBytes-c.CleanBytes))))
	}
	if len(parts) > 0 {
		text += ", mainly in slabs (pages for objects of one size) of " + strings.Join(parts, ", ")
	}
	return text
}

func stacksWhat(y why) string {
	n := 0
	for _, r := range y.regions {
		if r.Kind == procfs.Stacks {
			n++
		}
	}
	if n == 1 {
		return "the stack of its only thread"
	}
	return fmt.Sprintf("%d stacks of %s each on average", n, term.Bytes(y.bytes/uint64(max(1, n))))
}

func arenasWhat(y why) string {
	n := 0
	for i := range y.regions {
		if y.regions[i].Kind == procfs.Anonymous && isArena(y.regions, i) {
			n++
		}
	}
	return fmt.Sprintf("%d arenas of glibc; none uses the free memory of another", n)
}
