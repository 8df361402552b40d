package cost

import "sort"

// GoogleTCMalloc is TCMalloc as Google publishes it, with its pages of 8 KiB. malloc aligns to 16 bytes, so it does not use the class of 8.
var GoogleTCMalloc = Allocator{"google-tcmalloc", func(request uint64) Place {
	if request > tcmallocLargest {
		usable := up(request, tcmallocPage)
		return alone(request, usable, googleRecords(usable))
	}
	at := sort.Search(len(googleClasses), func(i int) bool { return googleClasses[i].size >= request })
	return googleClasses[at].place(request)
}}

// googleRecords are those of a span: its structure, and an entry of the page map for each page.
func googleRecords(bytes uint64) float64 { return 64 + 8*float64(bytes/tcmallocPage) }

// googleClasses are the sizes of objects, and how many pages a span of each has.
var googleClasses = func() []slab {
	var out []slab
	for _, c := range [][2]uint64{
		{16, 1}, {32, 1}, {64, 1}, {80, 1}, {96, 1}, {112, 1}, {128, 1}, {160, 1}, {176, 1}, {208, 1}, {256, 1}, {288, 1}, {352, 1}, {448, 1},
		{512, 1}, {576, 1}, {704, 1}, {896, 1}, {1024, 1}, {1152, 2}, {1408, 2}, {1792, 2}, {2048, 2}, {2688, 2}, {3456, 3}, {4096, 1}, {4736, 3},
		{6144, 3}, {8192, 1}, {9472, 5}, {12288, 3}, {16384, 2}, {20480, 5}, {28672, 7}, {32768, 4}, {40960, 5}, {49152, 6}, {65536, 8}, {73728, 9},
		{81920, 10}, {98304, 12}, {114688, 14}, {131072, 16}, {155648, 19}, {204800, 25}, {262144, 32},
	} {
		bytes := c[1] * tcmallocPage
		out = append(out, slab{c[0], bytes, bytes / c[0], googleRecords(bytes)})
	}
	return out
}()
