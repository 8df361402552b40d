// Package model predicts the memory that data will need: the bytes of each structure, the resident bytes
// under each allocator, and how much data a machine can hold.
package model

import (
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// A Part is a kind of structure and its requests.
type Part struct {
	Name string
	Heap cost.Heap
}

// An Account holds the requests of a subject, by structure.
type Account struct {
	Title string
	Unit  string // the counted thing: "key"
	Count uint64
	Parts []Part
	// At are the requests of the same mixture with that many units.
	At func(count uint64) cost.Heap
	// Changing reports whether growth to Count also frees blocks, as in a radix tree.
	Changing bool
	// Facts are further figures of the model, as name and value.
	Facts   []Fact
	Groups  []redis.Group
	Changes []redis.Change
	Advice  []string
	Notes   []string
}

// A Fact is a figure of the model; Unit is bytes, count or mean.
type Fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// text is the value in words: bytes with their unit, whole numbers without a fraction.
func (f Fact) text() string {
	switch f.Unit {
	case "bytes":
		return size(f.Value)
	case "count":
		return count(f.Value)
	}
	return term.Mean(f.Value)
}

// heap is all parts together.
func (a Account) heap() cost.Heap {
	all := cost.Heap{}
	for _, p := range a.Parts {
		all.Merge(p.Heap, 1)
	}
	return all
}

// holds is the maximum number of units whose resident memory fits into the given bytes.
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
