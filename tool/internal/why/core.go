package why

import (
	"errors"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// everything is a process of which each page is in memory.
type everything struct{ page uint64 }

func (e everything) Resident(start, end uint64, visit func(start, end uint64)) error {
	visit(start&^(e.page-1), (end+e.page-1)&^(e.page-1))
	return nil
}

// ForCore is the waterfall of a core file. It does not tell which pages were in memory, so this is
// Granary's own account: all pages but those it knows to hold nothing.
func ForCore(title string, s *inspect.Snapshot, heap *inspect.HeapMap) (Waterfall, error) {
	r, err := Measure(heap, everything{heap.OSPage})
	if err != nil {
		return Waterfall{}, err
	}
	r.Clean = 0
	used, _ := s.Value("arenas_used")
	dirty, _ := s.Value("arenas_dirty")
	r.Arenas = used + dirty
	r.Structure, _ = s.Value("metadata_used")
	w := Waterfall{Subject: title, Allocator: "granary", Exact: s.Consistent}
	h := Heap{Snapshot: s, Residency: r}
	w.inside(h, nil)
	w.RSS = uint64(max(0, w.Bytes("granary")))
	w.Fragmentation = s.Fragmentation()
	w.explain(&h, nil)
	return w, nil
}

// explainCore reads a core file.
func explainCore(path string) (w Waterfall, err error) {
	s, err := inspect.OpenSubject(procfs.Live(), path)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snapshot, err := s.Snapshot()
	if err != nil {
		return w, err
	}
	heap, err := s.HeapMap()
	if err != nil {
		return w, err
	}
	reports, err := s.Reports()
	if err != nil {
		return w, err
	}
	w, err = ForCore(s.Title, snapshot, heap)
	w.Reports = reports
	return w, err
}
