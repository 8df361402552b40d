package redis

import "math"

// buckets is the size of the table of a dict of n keys, which doubles when there are as many keys as
// buckets.
func buckets(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return doubled(firstTable, float64(n))
}

// doubled is a size that doubles until it is at least the given one.
func doubled(size uint64, least float64) uint64 {
	for float64(size) < least {
		size *= 2
	}
	return size
}

// old is the size of the table that is still being moved out of, 0 for none. A dict that grew past size
// moves with every insertion steps of its buckets; empty ones cost nothing.
func old(n uint64, steps float64) uint64 {
	before := buckets(n) / 2
	if before < firstTable || n <= before {
		return 0
	}
	if steps*float64(n-before) >= loadFactor1*float64(before) {
		return 0
	}
	return before
}

// table adds the buckets of n keys that were inserted one by one; with zero steps, of a table of its final size.
func (p Parts) table(part Part, n uint64, steps, times float64) {
	if n == 0 {
		return
	}
	p.Add(part, 8*buckets(n), times)
	if steps == 0 {
		return
	}
	if size := old(n, steps); size > 0 {
		p.Add(part, 8*size, times)
	}
}

// used is the expectation of the buckets of a table of that size in use by n keys.
func used(n, size float64) float64 {
	return -size * math.Expm1(n*math.Log1p(-1/size))
}

// dict adds a dict of n keys.
func (p Parts) dict(n uint64, steps, times float64) {
	p.Add(Dicts, dictSize, times)
	p.table(Dicts, n, steps, times)
	p.Add(Entries, dictEntry, float64(n)*times)
}

// bareDict adds a dict whose buckets point to the key itself if they have only one.
func (p Parts) bareDict(n uint64, steps, times float64) {
	p.Add(Dicts, dictSize, times)
	p.table(Dicts, n, steps, times)
	// Those in buckets with others have entries, all but one of each bucket.
	p.Add(Entries, bareEntry, (float64(n)-used(float64(n), float64(buckets(n))))*times)
}
