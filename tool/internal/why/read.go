package why

import (
	"errors"
	"fmt"
	"math"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// Explain reads process pid.
func Explain(proc procfs.FS, pid int) (Waterfall, error) {
	running, err := inspect.AllocatorOf(proc, pid)
	if err != nil {
		return Waterfall{}, proc.Explain(pid, err)
	}
	name, err := proc.Comm(pid)
	if err != nil {
		return Waterfall{}, proc.Explain(pid, err)
	}
	subject := fmt.Sprintf("process %d (%s), %s", pid, name, running.Describe())
	if running.Name == inspect.Granary {
		return steadiest(func() (Waterfall, error) { return granary(proc, pid, subject) })
	}
	regions, err := procfs.Footprint(proc, pid)
	if err != nil {
		return Waterfall{}, proc.Explain(pid, err)
	}
	kernel, err := rss(proc, pid, regions)
	if err != nil {
		return Waterfall{}, err
	}
	return OfOtherAllocator(pid, subject, running, regions, kernel), nil
}

// A process that runs on changes between the sources. The reading in which they agree best is taken,
// of at most so many; one that is off by less than this part of RSS is good enough.
const (
	readings = 8
	good     = 0.001
)

func steadiest(read func() (Waterfall, error)) (best Waterfall, err error) {
	for i := range readings {
		w, err := read()
		if err != nil {
			return w, err
		}
		if i == 0 || w.off() < best.off() {
			best = w
		}
		if best.off() < good {
			break
		}
	}
	return best, nil
}

// off is by which part of RSS the sources disagree.
func (w Waterfall) off() float64 {
	if w.Kernel == 0 {
		return 0
	}
	return math.Abs(w.Error()) + math.Abs(float64(w.Bytes("unmatched")))/float64(w.Kernel)
}

// granary reads the heap first, then the pages and the mappings, as they change least.
func granary(proc procfs.FS, pid int, subject string) (w Waterfall, err error) {
	target, err := inspect.Open(pid)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	h := Heap{Library: target.Library}
	if h.Snapshot, err = target.Snapshot(); err != nil {
		return w, err
	}
	heap, err := target.HeapMap()
	if err != nil {
		return w, err
	}
	pages, err := proc.Pages(pid)
	if err != nil {
		return w, proc.Explain(pid, err)
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	if h.Residency, err = Measure(heap, pages); err != nil {
		return w, proc.Explain(pid, err)
	}
	regions, err := procfs.Footprint(proc, pid)
	if err != nil {
		return w, proc.Explain(pid, err)
	}
	kernel, err := rss(proc, pid, regions)
	if err != nil {
		return w, err
	}
	h.Shared = !isProgram(proc, pid, target.Library)
	return ForGranary(pid, subject, h, regions, kernel), nil
}

func isProgram(proc procfs.FS, pid int, library string) bool {
	path, err := proc.Exe(pid)
	return err == nil && path == library
}

// rss is what smaps_rollup says; before Linux 4.14 there is none, and the mappings are added up.
func rss(proc procfs.FS, pid int, regions []procfs.FootprintRegion) (uint64, error) {
	memory, err := proc.Memory(pid)
	if err != nil {
		return 0, proc.Explain(pid, err)
	}
	if memory.PSS == 0 {
		return procfs.TotalRSS(regions), nil
	}
	return memory.RSS, nil
}
