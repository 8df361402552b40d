package cost

import "math/bits"

// Mimalloc is mimalloc 2: blocks of one size are on a page of 64 KiB, or of 512 KiB from 16 KiB on;
// a block
// of more than 128 KiB has slices of 64 KiB for itself, and of more than 512 KiB as many KiB.
var Mimalloc = Allocator{"mimalloc", func(request uint64) Place {
	const small, medium, slice, page = 16 << 10, 128 << 10, 64 << 10, 512 << 10
	const shifted, shift = 1024, 48
	size := mimallocBin(max(1, request))
	switch {
	case request > page:
		return alone(request, up(request, page), mimallocRecord)
	case request > medium:
		return alone(request, up(request, slice), mimallocRecord)
	case size > small:
		return slab{size, page, page / size, page / slice * mimallocRecord}.place(request)
	case size <= shifted: // the first block begins a little later, for the cache
		return slab{size, slice, (slice - shift) / size, mimallocRecord}.place(request)
	}
	return slab{size, slice, slice / size, mimallocRecord}.place(request)
}}

// mimallocRecord is a page's share of the first slice of its segment of 32 MiB.
const mimallocRecord = 64 << 10 / 511.0

// mimallocBin is 8, steps of 16 to 64, then four to a doubling of words.
func mimallocBin(n uint64) uint64 {
	words := (n + 7) / 8
	switch {
	case words <= 1:
		return 8
	case words <= 8:
		return 8 * up(words, 2)
	}
	return 8 * up(words, uint64(1)<<(bits.Len64(words-1)-3))
}
