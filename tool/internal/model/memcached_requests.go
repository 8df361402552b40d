// The layout of memcached's items: classes of chunks on pages of a MiB, and a hash table.
// docs/design/model.md derives the forms.

package model

import (
	"fmt"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// memcachedSettings are the options of memcached's command line that affect the model.
type memcachedSettings struct {
	Factor float64 // -f
	Least  uint64  // -n
	CAS    bool    // not -C
}

// usualMemcached are memcached's defaults.
var usualMemcached = memcachedSettings{1.25, 48, true}

const (
	itemHeader  = 48
	pageBytes   = 1 << 20
	largestOne  = pageBytes / 2
	align       = 8
	firstTable  = 16 // its logarithm
	mostClasses = 63
	longestKey  = 250
)

// Item is the size of an item: itemHeader, version for CAS, key and zero, flags unless they are 0, value and
// line break.
func (s memcachedSettings) Item(key, value uint64, flags bool) uint64 {
	size := itemHeader + key + 1 + value + 2
	if s.CAS {
		size += 8
	}
	if flags {
		size += 4
	}
	return size
}

// Classes are the sizes of chunks.
func (s memcachedSettings) Classes() []uint64 {
	var out []uint64
	for size := itemHeader + s.Least; float64(size) < float64(uint64(largestOne/s.Factor)) && len(out) < mostClasses-1; {
		size = (size + align - 1) / align * align
		out = append(out, size)
		size = uint64(float64(size) * s.Factor)
	}
	return append(out, largestOne)
}

// A itemLayout describes the placement of equal items: their class, and the pages.
type itemLayout struct {
	Item  uint64
	Class int // from 1, as memcached numbers them
	Chunk uint64
	PerPage,
	Pages,
	Table uint64 // bytes of the hash table
}

// Lay computes the layout of a number of equal items.
func (s memcachedSettings) Lay(items, key, value uint64, flags bool) (itemLayout, error) {
	if key > longestKey {
		return itemLayout{}, fmt.Errorf("memcached takes keys of up to %d bytes, not %d", longestKey, key)
	}
	l := itemLayout{Item: s.Item(key, value, flags)}
	if l.Item > largestOne {
		return l, fmt.Errorf("an item of %d bytes is spread over several chunks: up to %d are computed", l.Item, largestOne)
	}
	for i, chunk := range s.Classes() {
		if chunk >= l.Item {
			l.Class, l.Chunk = i+1, chunk
			break
		}
	}
	l.PerPage = pageBytes / l.Chunk
	l.Pages = (items + l.PerPage - 1) / l.PerPage
	l.Table = itemTable(items)
	return l, nil
}

// Table is the hash table, which doubles at one and a half items for each bucket.
func itemTable(items uint64) uint64 {
	power := uint64(firstTable)
	for items > (uint64(1)<<power)*3/2 {
		power++
	}
	return 8 << power
}

// Slabs are the requests for pages, Buckets the one for the table.
func (l itemLayout) Slabs() cost.Heap { return cost.Heap{pageBytes: float64(l.Pages)} }

// Buckets is the request for the hash table.
func (l itemLayout) Buckets() cost.Heap { return cost.Heap{l.Table: 1} }
