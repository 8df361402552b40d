// Package cost computes what requests cost under an allocator: the bytes that the program may use, and the
// bytes that become resident, with the ends of slabs and the allocator's own records.
package cost

import "math"

// Page is the size of a page of memory.
const Page = 4096

// A Place describes the memory that an allocator uses for a request.
type Place struct {
	Usable   uint64  // the result of malloc_usable_size, in bytes
	Resident float64 // bytes once the block is written to, with its share of the slab's end and of records
}

// An Allocator places requests.
type Allocator struct {
	Name  string
	Place func(request uint64) Place
}

// A slab holds objects of one size from its start.
type slab struct {
	size    uint64 // of an object
	bytes   uint64
	objects uint64
	records float64 // the allocator's own bytes for it
}

// place puts a request into the slab.
func (s slab) place(request uint64) Place {
	filled := min(s.bytes, up(s.objects*s.size, Page)) // whole pages behind the last object are never written
	each := (float64(filled) + s.records) / float64(s.objects)
	return Place{s.size, math.Min(each, s.written(request)+s.records/float64(s.objects))}
}

// written are the bytes of the object's pages that the program writes: objects of many pages that are not full
// leave pages untouched.
func (s slab) written(request uint64) float64 {
	switch {
	case s.size < 2*Page:
		return math.Inf(1)
	case s.size%Page == 0:
		return float64(up(request, Page))
	}
	return float64(request + Page) // as it begins anywhere in a page
}

// alone is a block of separate whole pages.
func alone(request, usable uint64, records float64) Place {
	return Place{usable, float64(up(request, Page)) + records}
}

func up(n, to uint64) uint64 { return (n + to - 1) / to * to }

// A Heap is a number of requests of each size. Numbers are expectations, and need not be whole.
type Heap map[uint64]float64

// Add puts count requests of a size into the heap.
func (h Heap) Add(size uint64, count float64) {
	if count > 0 {
		h[size] += count
	}
}

// Merge puts the requests of other, times over, into the heap.
func (h Heap) Merge(other Heap, times float64) {
	for size, count := range other {
		h.Add(size, count*times)
	}
}

// A Sum is the memory of a heap, in bytes.
type Sum struct {
	Blocks    float64 `json:"blocks"`
	Requested float64 `json:"requested"`
	Usable    float64 `json:"usable"`
	Resident  float64 `json:"resident"`
}

// Of computes the memory of the heap under an allocator.
func (a Allocator) Of(h Heap) Sum {
	var s Sum
	for size, count := range h {
		p := a.Place(size)
		s.Blocks += count
		s.Requested += count * float64(size)
		s.Usable += count * float64(p.Usable)
		s.Resident += count * p.Resident
	}
	return s
}

// Plus adds two sums.
func (s Sum) Plus(other Sum) Sum {
	return Sum{s.Blocks + other.Blocks, s.Requested + other.Requested, s.Usable + other.Usable, s.Resident + other.Resident}
}
