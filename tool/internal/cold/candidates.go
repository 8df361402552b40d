package cold

import (
	"os"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// candidates are the pages of a process that may be paged out.
type candidates struct {
	ranges []Range // sorted; all candidates are inside
	page   uint64  // bytes
	each   func(visit func(page uint64))
}

// ofHeap are the pages with live objects of a Granary heap, and those of scoped heaps and arenas.
func ofHeap(heap *inspect.HeapMap) candidates {
	return candidates{rangesOf(heap), heap.OSPage, func(visit func(page uint64)) {
		livePages(heap, func(page, _, _ uint64) { visit(page) })
		for _, a := range heap.Arenas {
			arenaPages(heap, a, visit)
		}
	}}
}

// ofProcess are all pages of private anonymous memory, whatever allocates there.
func ofProcess(proc procfs.FS, pid int) (c candidates, err error) {
	c.page = uint64(os.Getpagesize())
	maps, err := proc.Maps(pid)
	if err != nil {
		return c, err
	}
	for _, m := range maps {
		if strings.HasPrefix(m.Perms, "rw-p") && (m.Path == "" || m.Path == "[heap]" || strings.HasPrefix(m.Path, "[anon:")) {
			c.ranges = append(c.ranges, Range{Start: m.Start, End: m.End})
		}
	}
	c.each = func(visit func(page uint64)) {
		for _, r := range c.ranges {
			for page := r.Start; page < r.End; page += c.page {
				visit(page)
			}
		}
	}
	return c, nil
}
