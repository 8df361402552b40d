package cold

import (
	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// rangesOf are the parts of the address space that hold objects.
func rangesOf(heap *inspect.HeapMap) (ranges []Range) {
	for _, chunk := range heap.Chunks {
		ranges = append(ranges, Range{Start: chunk.Start, End: chunk.End})
	}
	for _, a := range heap.Arenas {
		for _, r := range a.Memory {
			ranges = append(ranges, wholePages(heap, r))
		}
	}
	return ranges
}

// wholePages leaves out the ends of a range that share a page with something else.
func wholePages(heap *inspect.HeapMap, r inspect.Range) Range {
	start := (r.Start + heap.OSPage - 1) &^ (heap.OSPage - 1)
	return Range{Start: start, End: max(start, r.End&^(heap.OSPage-1))}
}

// arenaPages calls visit for each page of a scoped heap or an arena, whose objects are not known.
func arenaPages(heap *inspect.HeapMap, a inspect.Arena, visit func(page uint64)) {
	for _, r := range a.Memory {
		for whole := wholePages(heap, r); whole.Start < whole.End; whole.Start += heap.OSPage {
			visit(whole.Start)
		}
	}
}

// livePages calls visit for each page with live objects: its address, the size of the objects (0: a block), and how
// many of its bytes they cover.
func livePages(heap *inspect.HeapMap, visit func(page, size, live uint64)) {
	for i := range heap.Slabs {
		s := &heap.Slabs[i]
		for n := range s.Bytes / heap.OSPage {
			if objects, idle := s.Occupied(heap.OSPage, n); objects > 0 {
				visit(s.Address+n*heap.OSPage, s.ObjectSize, heap.OSPage-idle)
			}
		}
	}
	for _, b := range heap.Medium {
		if !b.Cached {
			pagesOf(heap, b.Address, b.Size, func(page, bytes uint64) { visit(page, b.Size, bytes) })
		}
	}
	for _, b := range heap.Large {
		pagesOf(heap, b.Address, b.Size, func(page, bytes uint64) { visit(page, 0, bytes) })
	}
}

// pagesOf divides [address, address+size) among its pages.
func pagesOf(heap *inspect.HeapMap, address, size uint64, visit func(page, bytes uint64)) {
	for at, end := address, address+size; at < end; {
		page := at &^ (heap.OSPage - 1)
		next := min(end, page+heap.OSPage)
		visit(page, next-at)
		at = next
	}
}
