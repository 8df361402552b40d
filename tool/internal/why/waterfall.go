// Package why explains the resident memory of a process: a summary, a waterfall from
// the live bytes to RSS that adds up, and the largest causes with a remedy for each.
package why

import (
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A Step is one row of the waterfall.
type Step struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Sum marks a row that is the sum of those above it, back to the sum before.
	Sum bool `json:"sum,omitempty"`
	// About marks a figure that is estimated; all others are counted.
	About bool   `json:"about,omitempty"`
	Note  string `json:"note"`
}

// A Waterfall leads from the live bytes to RSS.
type Waterfall struct {
	PID       int    `json:"pid"`
	Subject   string `json:"subject"`
	Allocator string `json:"allocator"`
	Summary   string `json:"summary"` // the largest cause and its remedy
	Steps     []Step `json:"steps"`
	// RSS is the sum of the steps, Kernel the kernel's figure; they differ by what changed between
	// the two readings.
	RSS    uint64  `json:"rss_bytes"`
	Kernel uint64  `json:"kernel_rss_bytes"`
	Exact  bool    `json:"exact"` // the process did not change during the reading
	Causes []Cause `json:"causes"`
	Swap   uint64  `json:"swap_bytes"`
	// Fragmentation is the heap's fragmentation ratio; 0 for other allocators.
	Fragmentation float64 `json:"fragmentation_ratio,omitempty"`
	// Reports is what the library wrote to stderr before a core file was written.
	Reports string `json:"reports,omitempty"`
}

// Error is the difference between the sum and the kernel's figure, as a fraction of RSS.
func (w Waterfall) Error() float64 {
	if w.Kernel == 0 {
		return 0
	}
	return (float64(w.RSS) - float64(w.Kernel)) / float64(w.Kernel)
}

// Bytes is the step of that key; 0 if there is none.
func (w Waterfall) Bytes(key string) int64 {
	for _, s := range w.Steps {
		if s.Key == key {
			return s.Bytes
		}
	}
	return 0
}

// Heap holds the figures of a process under Granary.
type Heap struct {
	Snapshot  *inspect.Snapshot
	Residency Residency
	Library   string // the file that contains the allocator
	Shared    bool   // a library of its own, not part of the program
}

// add appends a step, unless it is empty.
func (w *Waterfall) add(key string, bytes int64, note string) {
	if bytes != 0 {
		w.Steps = append(w.Steps, Step{Key: key, Name: titles[key], Bytes: bytes, Note: note})
	}
}

// sum appends the sum of all rows that are no sums.
func (w *Waterfall) sum(key, note string) uint64 {
	total := int64(0)
	for _, s := range w.Steps {
		if !s.Sum {
			total += s.Bytes
		}
	}
	w.Steps = append(w.Steps, Step{Key: key, Name: titles[key], Bytes: total, Sum: true, Note: note})
	return uint64(max(0, total))
}

// titles are the names of the steps. With their indent they have at most 32 columns, so that a row with its
// bar fits 80.
var titles = map[string]string{
	"requested": "requested by the program",
	"rounding":  "rounding up to size classes",
	"live":      "live",
	"untouched": "not resident (untouched, swap)",
	"caches":    "free, in CPU caches",
	"depot":     "free, between these caches",
	"partial":   "free, among live objects",
	"dirty":     "free pages, not purged yet",
	"huge":      "unused parts of huge pages",
	"metadata":  "Granary's own structures",
	"own":       "live in the program's heaps",
	"own_free":  "free in the program's heaps",
	"library":   "Granary's code and data",
	"granary":   "Granary in total",
	"break":     "program break",
	"arenas":    "arenas of glibc for threads",
	"anonymous": "other anonymous memory",
	"lazy":      "freed, resident until needed",
	"stacks":    "stacks",
	"code":      "code",
	"data":      "static data",
	"files":     "mapped files",
	"shared":    "shared memory",
	"kernel":    "pages of the kernel (vDSO)",
	"unmatched": "changed during the reading",
	"rss":       "resident memory (RSS)",
}

// inside appends what Granary holds.
func (w *Waterfall) inside(h Heap, regions []procfs.FootprintRegion) {
	figure := func(name string) uint64 { v, _ := h.Snapshot.Value(name); return v }
	r := h.Residency
	rounding := min(figure("rounding_expected"), r.LiveBytes)
	w.add("requested", int64(r.LiveBytes-rounding), "estimate: sizes are not recorded")
	w.add("rounding", int64(rounding), "")
	for i := range w.Steps {
		w.Steps[i].About = true
	}
	w.sum("live", "allocated and not freed")
	w.add("untouched", int64(r.Live)-int64(r.LiveBytes), "parts of live objects")
	cached, depot := figure("cached"), figure("depot")
	share := uint64(0)
	if cached+depot > 0 {
		share = uint64(float64(r.Cached) * float64(depot) / float64(cached+depot))
	}
	w.add("caches", int64(r.Cached-share), "for the next malloc on each CPU")
	w.add("depot", int64(share), "in transit from one CPU to another")
	w.add("partial", int64(r.SlabFree), "on pages that live objects pin")
	w.add("dirty", int64(r.Dirty), "purged after dirty_decay_ms")
	w.add("huge", int64(r.Clean), "never written, resident anyway")
	w.add("metadata", int64(r.Structure), "tables that describe the heap")
	live := min(r.ArenasLive, r.Arenas)
	w.add("own", int64(live), "scoped heaps, mallctl's arenas")
	w.add("own_free", int64(r.Arenas-live), "objects and pages")
	if h.Shared {
		w.add("library", int64(libraryBytes(h, regions)), "")
	}
	w.sum("granary", "")
}

// libraryBytes is what of the library's file is in memory, without the structures in its data.
func libraryBytes(h Heap, regions []procfs.FootprintRegion) uint64 {
	bytes := uint64(0)
	for i, r := range regions {
		if isLibrary(h, regions, i) {
			bytes += r.RSS - min(r.RSS, h.Residency.within(r.Start, r.End))
		}
	}
	return bytes
}

// isLibrary is true for the mappings of the library's file, and for its zero-initialised data behind
// them.
func isLibrary(h Heap, regions []procfs.FootprintRegion, i int) bool {
	if !h.Shared {
		return false
	}
	r := regions[i]
	if r.Path == h.Library || r.Path == h.Library+" (deleted)" {
		return true
	}
	return r.Path == "" && r.Kind == procfs.Data && i > 0 && regions[i-1].End == r.Start && isLibrary(h, regions, i-1)
}

// within returns the resident bytes of the heap within [start, end).
func (r Residency) within(start, end uint64) (bytes uint64) {
	for _, o := range r.ranges {
		if o.start >= end {
			break
		}
		if o.end > start && o.start >= start && o.end <= end {
			bytes += o.resident
		} else if o.end > start {
			bytes += overlap(o, start, end)
		}
	}
	return bytes
}

// overlap returns the share of a range that is within [start, end), for a range in several mappings.
func overlap(o occupied, start, end uint64) uint64 {
	part := min(o.end, end) - max(o.start, start)
	return uint64(float64(o.resident) * float64(part) / float64(o.end-o.start))
}

// covers is true when all of [start, end) belongs to the heap.
func (r Residency) covers(start, end uint64) bool {
	for _, o := range r.ranges {
		if o.start <= start && start < o.end {
			start = o.end
		}
	}
	return start >= end
}

// outside appends what is not malloc's: the mappings without the heap's part of them.
func (w *Waterfall) outside(h *Heap, regions []procfs.FootprintRegion) {
	kinds := map[procfs.MemoryKind]int64{}
	var unmatched int64
	for i, r := range regions {
		bytes := int64(r.RSS)
		if h != nil {
			if isLibrary(*h, regions, i) {
				continue
			}
			bytes -= int64(h.Residency.within(r.Start, r.End))
			if bytes < 0 || h.Residency.covers(r.Start, r.End) {
				unmatched += bytes
				continue
			}
		}
		kinds[r.Kind] += bytes
	}
	for _, o := range []struct {
		kind procfs.MemoryKind
		key  string
	}{
		{procfs.Heap, "break"}, {procfs.Anonymous, "anonymous"}, {procfs.Stacks, "stacks"}, {procfs.Code, "code"},
		{procfs.Data, "data"}, {procfs.Files, "files"}, {procfs.Shared, "shared"}, {procfs.Kernel, "kernel"},
	} {
		w.add(o.key, kinds[o.kind], notes[o.key])
	}
	w.add("unmatched", unmatched, "two readings, not one moment")
}

var notes = map[string]string{
	"break":     "",
	"anonymous": "mapped without malloc",
	"stacks":    "",
	"code":      "shared with other processes",
	"data":      "of the program and its libraries",
	"files":     "",
	"shared":    "",
}

// ForGranary is the waterfall of a process under Granary.
func ForGranary(pid int, subject string, h Heap, regions []procfs.FootprintRegion, kernel uint64) Waterfall {
	w := Waterfall{PID: pid, Subject: subject, Allocator: "granary", Kernel: kernel, Exact: h.Snapshot.Consistent}
	w.inside(h, regions)
	w.outside(&h, regions)
	w.finish(regions)
	w.Fragmentation = h.Snapshot.Fragmentation()
	w.explain(&h, regions)
	return w
}

func (w *Waterfall) finish(regions []procfs.FootprintRegion) {
	w.RSS = w.sum("rss", "")
	for _, r := range regions {
		w.Swap += r.Swap
	}
}
