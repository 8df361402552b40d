package cost

import "math/bits"

// Jemalloc is jemalloc 5 as it is built by itself; RedisJemalloc is the one in the sources of Redis and
// Valkey, whose classes have steps of 8 bytes up to 64.
var (
	Jemalloc      = Allocator{"jemalloc", func(request uint64) Place { return jemalloc(request, 16) }}
	RedisJemalloc = Allocator{"jemalloc-redis", func(request uint64) Place { return jemalloc(request, 8) }}
)

// The records of jemalloc 5: a structure for each extent, and a leaf of its radix tree for each page.
const edata, leaf = 128, 8

// jemalloc places a request: a slab is the least common multiple of a page and its objects, so it has no
// end. A large block has a page more than its class, as it begins at a random line of its first page.
func jemalloc(request, quantum uint64) Place {
	const largestSmall = 14 << 10
	size := jemallocClass(max(1, request), quantum)
	if size > largestSmall {
		pages := float64(up(size, Page)/Page + 1)
		return Place{size, float64(request+Page) + edata + leaf*pages}
	}
	bytes := size / gcd(size, Page) * Page
	return slab{size, bytes, bytes / size, edata + leaf*float64(bytes/Page)}.place(request)
}

// jemallocClass is 8, then steps of the quantum up to eight times that, then four to a doubling.
func jemallocClass(n, quantum uint64) uint64 {
	switch {
	case n <= 8:
		return 8
	case n <= 8*quantum:
		return up(n, quantum)
	}
	return up(n, uint64(1)<<(bits.Len64(n-1)-3))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
