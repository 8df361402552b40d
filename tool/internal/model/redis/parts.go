package redis

import (
	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// A Part is a kind of structure: a row of the table of bytes.
type Part string

// The parts, in the order of the table.
const (
	KeyNames    Part = "names of keys (sds)"
	MainEntries Part = "entries of the main table (dictEntry)"
	MainTable   Part = "buckets of the main table"
	Expires     Part = "expires: entries and buckets"
	Objects     Part = "objects (robj), short strings inside"
	Keyed       Part = "objects (robj) with names of keys, short strings inside"
	Strings     Part = "strings (sds)"
	Listpacks   Part = "listpacks"
	Intsets     Part = "intsets"
	ListNodes   Part = "nodes of lists (quicklist)"
	Dicts       Part = "tables of sets, hashes and sorted sets"
	Entries     Part = "entries of those tables"
	Skiplists   Part = "nodes of skip lists"
	Elements    Part = "elements, fields and values (sds)"
	Rax         Part = "radix trees of streams"
	Streams     Part = "structures of streams"
)

// PartsInOrder are the rows of the table.
var PartsInOrder = []Part{KeyNames, MainEntries, MainTable, Expires, Objects, Keyed, Strings, Listpacks, Intsets, ListNodes, Dicts, Entries, Skiplists, Elements, Rax, Streams}

// Parts are the requests of each structure.
type Parts map[Part]cost.Heap

// Add puts count requests of a size under a part.
func (p Parts) Add(part Part, size uint64, count float64) {
	h := p[part]
	if h == nil && count > 0 {
		h = cost.Heap{}
		p[part] = h
	}
	h.Add(size, count)
}

// Merge puts the requests of other, times over, into p.
func (p Parts) Merge(other Parts, times float64) {
	for part, h := range other {
		for size, count := range h {
			p.Add(part, size, count*times)
		}
	}
}

// Heap is all requests together.
func (p Parts) Heap() cost.Heap {
	all := cost.Heap{}
	for _, h := range p {
		all.Merge(h, 1)
	}
	return all
}
