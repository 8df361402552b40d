package profile

import (
	"cmp"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// Pins tells who keeps pages of the system in memory that are mostly idle. The idle bytes of a page
// are those that no live object of the page covers; each live object on it answers for an equal part,
// since all of them must go before the page can.
type Pins struct {
	Stacks []float64 // unused bytes of pinned pages, estimated, by index of Samples.Stacks
	Total  uint64    // unused bytes of all pinned pages: exact
	Pages  uint64    // the number of such pages
}

// Unknown are the idle bytes that no sampled object answers for: held by what was allocated before the
// profile began, or below the error of sampling.
func (p *Pins) Unknown() float64 {
	known := 0.0
	for _, bytes := range p.Stacks {
		known += bytes
	}
	return max(0, float64(p.Total)-known)
}

// A Page is an OS page that live objects pin although they leave part of it unused.
type Page struct {
	Address    uint64
	ObjectSize uint64 // bytes
	Live       uint64 // objects on it
	Idle       uint64 // bytes that no live object covers
}

// Pages are the pinned pages that are partly unused, by address.
func Pages(h *inspect.HeapMap) (pages []Page) {
	for i := range h.Slabs {
		s := &h.Slabs[i]
		for page := range pagesOf(s, h.OSPage) {
			if live, idle := s.Occupied(h.OSPage, page); live > 0 && idle > 0 {
				pages = append(pages, Page{s.Address + page*h.OSPage, s.ObjectSize, live, idle})
			}
		}
	}
	return pages
}

// FindPins computes the unused bytes that the stacks of s pin in the heap h.
func FindPins(s *inspect.Samples, h *inspect.HeapMap) *Pins {
	p := &Pins{Stacks: make([]float64, len(s.Stacks))}
	for _, page := range Pages(h) {
		p.Total += page.Idle
		p.Pages++
	}
	for _, sample := range s.Live {
		if slab := slabOf(h, sample.Address); slab != nil && sample.Stack < len(p.Stacks) {
			p.Stacks[sample.Stack] += sample.Objects * Pinned(slab, h.OSPage, sample.Address)
		}
	}
	return p
}

// Pinned returns the idle bytes that the object at address pins: the live objects on a page share the
// page's idle bytes equally.
func Pinned(s *inspect.Slab, osPage, address uint64) (bytes float64) {
	object := (address - s.Address) / s.ObjectSize
	if object >= uint64(s.Objects) {
		return 0
	}
	begin := object * s.ObjectSize
	for page := begin / osPage; page <= (begin+s.ObjectSize-1)/osPage; page++ {
		live, idle := s.Occupied(osPage, page)
		if live > 0 {
			bytes += float64(idle) / float64(live)
		}
	}
	return bytes
}

func pagesOf(s *inspect.Slab, osPage uint64) uint64 { return s.Bytes / osPage }

func slabOf(h *inspect.HeapMap, address uint64) *inspect.Slab {
	i, found := slices.BinarySearchFunc(h.Slabs, address, func(s inspect.Slab, a uint64) int {
		if a >= s.Address && a < s.Address+s.Bytes {
			return 0
		}
		return cmp.Compare(s.Address, a)
	})
	if !found {
		return nil
	}
	return &h.Slabs[i]
}
