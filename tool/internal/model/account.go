// Package model says what data will cost before it is there: the bytes of each structure, what each
// allocator makes of them, and how much a machine holds.
package model

import (
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
)

// A Part is a kind of structure, and what it asks for.
type Part struct {
	Name string
	Heap cost.Heap
}

// An Account is what a subject comes to.
type Account struct {
	Title string
	Unit  string // what is counted: "key"
	Count uint64
	Parts []Part
	// At are the requests of the same mixture with that many units.
	At func(count uint64) cost.Heap
	// Changing says that blocks come and go on the path to Count, as nodes of a radix tree do.
	Changing bool
	// Facts are what else the forms say, as name and value.
	Facts   []Fact
	Groups  []redis.Group
	Changes []redis.Change
	Advice  []string
	Notes   []string
}

// A Fact is a figure of the model.
type Fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// heap is all parts together.
func (a Account) heap() cost.Heap {
	all := cost.Heap{}
	for _, p := range a.Parts {
		all.Merge(p.Heap, 1)
	}
	return all
}

// holds is the most units that stay resident within so many bytes.
func (a Account) holds(allocator cost.Allocator, bytes float64) uint64 {
	fits := func(n uint64) bool { return allocator.Of(a.At(n)).Resident <= bytes }
	low, high := uint64(0), uint64(1)
	for fits(high) {
		if low, high = high, high*2; high > 1<<50 {
			return low
		}
	}
	for high-low > 1+low/10_000 {
		if middle := low + (high-low)/2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
