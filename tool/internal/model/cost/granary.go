package cost

import (
	"sort"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// granaryRecord is the share of a page's records: its place in the map of pages and in its block's
// header.
const granaryRecord = 16

// Granary places requests into the classes of its library.
func Granary(classes []inspect.Class) Allocator {
	return Allocator{"granary", func(request uint64) Place {
		n := max(1, request)
		at := sort.Search(len(classes), func(i int) bool { return classes[i].Size >= n })
		if at == len(classes) {
			return alone(request, up(n, Page), granaryRecord)
		}
		c := classes[at]
		if !c.Small {
			return alone(request, c.Size, granaryRecord)
		}
		return slab{c.Size, c.SlabBytes, c.SlabObjects, granaryRecord * float64(c.SlabBytes/Page)}.place(request)
	}}
}
