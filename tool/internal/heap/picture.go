// Package heap shows what a heap holds: its figures, the cost of one allocation, its live objects, and, drawn in the
// terminal or as a picture, how full each region of 2 MiB and each slab is.
package heap

import (
	"cmp"
	"slices"
	"sort"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// Kind is the use of a granule.
type Kind int

// The kinds of granules.
const (
	Clean   Kind = iota // free, not resident
	Dirty               // free, not purged yet
	Slab                // part of a slab
	Object              // part of a live object of several granules
	Kept                // such an object, free in a cache
	Large               // part of a block
	Damaged             // its description cannot be true
	kinds
)

var kindNames = [kinds]string{"free, not resident", "free, not purged yet (dirty)", "slabs", "live objects above 64 KiB",
	"cached objects above 64 KiB", "blocks above 1 MiB", "damaged"}

func (k Kind) String() string { return kindNames[k] }

// A Cell is one granule. Fill is the share of its bytes that live: of a slab, of all of the slab.
type Cell struct {
	Kind Kind
	Fill float64
}

// A Tracker is a row of cells. Sizes are bytes.
type Tracker struct {
	Address uint64
	Cells   []Cell
	Live    uint64
	Dirty   uint64
	State   inspect.TrackerState
}

// Fill is the share of the tracker that lives.
func (t Tracker) Fill(granule uint64) float64 {
	if len(t.Cells) == 0 {
		return 0
	}
	return float64(t.Live) / float64(uint64(len(t.Cells))*granule)
}

// A Class is the slabs of one object size, by how full they are.
type Class struct {
	Size   uint64  `json:"size"`
	Slabs  int     `json:"slabs"`
	Bytes  uint64  `json:"bytes"`
	Live   uint64  `json:"live_bytes"`
	Cached uint64  `json:"cached_bytes"`
	Clean  uint64  `json:"clean_bytes"` // pages that hold nothing
	Tenths [11]int `json:"slabs_by_tenths_full"`
}

// Free is the number of unused bytes in the slabs of the size class.
func (c Class) Free() uint64 { return c.Bytes - min(c.Bytes, c.Live+c.Cached+c.Clean) }

// A Picture is a heap, ready to be drawn.
type Picture struct {
	Title string
	// Fragmentation is the fragmentation ratio; 0 if it is not known.
	Fragmentation float64
	Granule       uint64
	Trackers      []Tracker
	Classes       []Class // by size
	Damage        []string
}

// Draw makes the picture of a heap.
func Draw(title string, h *inspect.HeapMap) Picture {
	p := Picture{Title: title, Granule: h.Granule, Damage: h.Damage}
	for _, t := range h.Trackers {
		p.Trackers = append(p.Trackers, p.tracker(t))
	}
	for i := range h.Slabs {
		p.slab(&h.Slabs[i])
	}
	for _, b := range h.Medium {
		kind, fill := Object, 1.0
		if b.Cached {
			kind, fill = Kept, 0
		}
		p.fill(b.Address, b.Size, Cell{kind, fill})
	}
	for _, b := range h.Large {
		p.fill(b.Address, b.Size, Cell{Large, 1})
	}
	p.Classes = classes(h)
	return p
}

func (p *Picture) tracker(t inspect.Tracker) Tracker {
	out := Tracker{Address: t.Address, State: t.State, Cells: make([]Cell, 64*len(t.UsedBits))}
	for g := range out.Cells {
		switch {
		case t.State == inspect.TrackerDamaged:
			out.Cells[g].Kind = Damaged
		case t.DirtyBits[g/64]>>(g%64)&1 != 0 && t.UsedBits[g/64]>>(g%64)&1 == 0:
			out.Cells[g].Kind = Dirty
			out.Dirty += p.Granule
		}
	}
	return out
}

func (p *Picture) slab(s *inspect.Slab) {
	p.fill(s.Address, s.Bytes, Cell{Slab, float64(uint64(s.Live())*s.ObjectSize) / float64(s.Bytes)})
}

// fill marks the granules of [address, address+size), which may go over several trackers.
func (p *Picture) fill(address, size uint64, cell Cell) {
	i := sort.Search(len(p.Trackers), func(i int) bool { return p.Trackers[i].Address > address }) - 1
	for end := address + size; i >= 0 && i < len(p.Trackers) && p.Trackers[i].Address < end; i++ {
		t := &p.Trackers[i]
		from := max(address, t.Address)
		for g := (from - t.Address) / p.Granule; g < uint64(len(t.Cells)) && t.Address+g*p.Granule < end; g++ {
			t.Cells[g] = cell
			t.Live += uint64(cell.Fill * float64(min(p.Granule, end-t.Address-g*p.Granule)))
		}
	}
}

func classes(h *inspect.HeapMap) []Class {
	bySize := map[uint64]*Class{}
	for i := range h.Slabs {
		s := &h.Slabs[i]
		c := bySize[s.ObjectSize]
		if c == nil {
			c = &Class{Size: s.ObjectSize}
			bySize[s.ObjectSize] = c
		}
		c.Slabs++
		c.Bytes += s.Bytes
		c.Live += uint64(s.Live()) * s.ObjectSize
		c.Cached += uint64(s.Cached) * s.ObjectSize
		c.Clean += s.CleanBytes(h.OSPage)
		if s.Objects > 0 {
			c.Tenths[10*s.Live()/s.Objects]++
		}
	}
	var out []Class
	for _, c := range bySize {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Class) int { return cmp.Compare(a.Size, b.Size) })
	return out
}

// mostClasses is how many classes are shown by themselves.
const mostClasses = 24

// shown are the largest classes, by size, and all others as one of size 0.
func (p Picture) shown() []Class {
	if len(p.Classes) <= mostClasses {
		return p.Classes
	}
	all := slices.Clone(p.Classes)
	slices.SortStableFunc(all, func(a, b Class) int { return cmp.Compare(b.Bytes, a.Bytes) })
	out, rest := all[:mostClasses], Class{}
	for _, c := range all[mostClasses:] {
		rest.Slabs += c.Slabs
		rest.Bytes += c.Bytes
		rest.Live += c.Live
		rest.Cached += c.Cached
		rest.Clean += c.Clean
		for i, n := range c.Tenths {
			rest.Tenths[i] += n
		}
	}
	slices.SortFunc(out, func(a, b Class) int { return cmp.Compare(a.Size, b.Size) })
	return append(out, rest)
}

// label names a class.
func (c Class) label() string {
	if c.Size == 0 {
		return "other"
	}
	return term.Count(c.Size)
}

// Totals are the bytes of each kind of granule.
func (p Picture) Totals() [kinds]uint64 {
	var out [kinds]uint64
	for _, t := range p.Trackers {
		for _, c := range t.Cells {
			out[c.Kind] += p.Granule
		}
	}
	return out
}
