package cost

import (
	"sort"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// granaryRecord is the share of a page's records: its place in the map of pages and in its block's
// header.
const granaryRecord = 16

// Granary places requests into the classes of its library. A request of no bytes gets an address without memory.
func Granary(classes []inspect.Class) Allocator {
	return Allocator{"granary", func(request uint64) Place {
		if request == 0 {
			return Place{}
		}
		at := sort.Search(len(classes), func(i int) bool { return classes[i].Size >= request })
		if at == len(classes) {
			return alone(request, up(request, Page), granaryRecord)
		}
		c := classes[at]
		if !c.Small {
			return alone(request, c.Size, granaryRecord)
		}
		return slab{c.Size, c.SlabBytes, c.SlabObjects, granaryRecord * float64(c.SlabBytes/Page)}.place(request)
	}}
}
