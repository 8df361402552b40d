package cost

import (
	"math/bits"
	"sort"
)

// TCMalloc is gperftools' TCMalloc with its pages of 8 KiB, as Debian builds it.
var TCMalloc = Allocator{"tcmalloc", func(request uint64) Place {
	n := max(1, request)
	if n > tcmallocLargest {
		usable := up(n, tcmallocPage)
		return alone(request, usable, tcmallocRecords(usable))
	}
	at := sort.Search(len(tcmallocClasses), func(i int) bool { return tcmallocClasses[i].size >= n })
	return tcmallocClasses[at].place(request)
}}

const tcmallocPage, tcmallocLargest = 8 << 10, 256 << 10

// tcmallocRecords are those of a span: its structure, and an entry of the page map for each page.
func tcmallocRecords(bytes uint64) float64 { return 48 + 8*float64(bytes/tcmallocPage) }

// tcmallocClasses are made as SizeMap::Init makes them: a span leaves at most an eighth unused and holds
// a quarter of the batch that moves between caches; a class that fits its span no better is merged.
var tcmallocClasses = func() []slab {
	var out []slab
	for size := uint64(8); size <= tcmallocLargest; size += tcmallocAlign(size) {
		moved := min(max(64<<10/size, 2), 32) / 4
		bytes := uint64(0)
		for bytes == 0 || bytes/size < moved {
			bytes += tcmallocPage
			for bytes%size > bytes>>3 {
				bytes += tcmallocPage
			}
		}
		s := slab{size, bytes, bytes / size, tcmallocRecords(bytes)}
		if last := len(out) - 1; last >= 0 && out[last].bytes == bytes && out[last].objects == s.objects {
			out[last] = s
			continue
		}
		out = append(out, s)
	}
	return out
}()

func tcmallocAlign(size uint64) uint64 {
	switch {
	case size >= 128:
		return min(uint64(1)<<(bits.Len64(size)-1)/8, tcmallocPage)
	case size >= 16:
		return 16
	}
	return 8
}
