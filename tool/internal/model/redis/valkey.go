package redis

import "math"

// Valkey 8 keeps in one block what Redis keeps in several: a key of the main table has its name and, if short, its
// string; a field of a hash has its value. Its tables are arrays of buckets that point to those blocks.
const (
	bucketSize     = 64
	bucketEntries  = 7
	hashtableSize  = 72
	expireSize     = 8
	nameHeader     = 1   // says how long the header of the name is
	expireFrom     = 128 // names of that length have room for a time to live even without one
	longestKeyed   = 64  // an object with its name and its string
	longestPair    = 128 // a field with its value
	valuePointer   = 8
	presizedFactor = 5.0 / 32 // buckets for each entry of a table that is made for a known number
)

// tops is the number of buckets of a table that grew by insertions to n entries: it doubles when all places are full.
func tops(n uint64) uint64 { return topsFor(float64(n) / bucketEntries) }

// presized is the number of buckets of a table that was made for n entries.
func presized(n uint64) uint64 { return topsFor(float64(n) * presizedFactor) }

func topsFor(least float64) uint64 {
	if least == 0 {
		return 0
	}
	return doubled(1, least)
}

// children is the expectation of further buckets for each of m buckets that n entries share: a full bucket gives its
// last place to a pointer to the next.
func children(n, m float64) float64 {
	if m <= 1 {
		return chained(n)
	}
	sum, left := 0.0, 1.0
	p := math.Exp(n * math.Log1p(-1/m))
	for x := 0.0; x <= n && (left > 1e-12 || x < n/m); x++ {
		sum += p * chained(x)
		left -= p
		p *= (n - x) / ((x + 1) * (m - 1))
	}
	return sum
}

// chained is the number of further buckets behind a bucket of x entries.
func chained(x float64) float64 {
	return math.Ceil(max(0, x-bucketEntries) / (bucketEntries - 1))
}

// bucketed adds the buckets of a table of n entries in m buckets. With steps of moving for each insertion, those of the
// table before it, of half the buckets, that are not moved yet, too.
func (p Parts) bucketed(part Part, n, m uint64, steps, times float64) {
	if n == 0 {
		return
	}
	p.Add(part, bucketSize*m, times)
	before, share := float64(m)/2, 0.0
	if full := before * bucketEntries; steps > 0 && m > 1 && float64(n) > full {
		share = max(0, 1-steps*(float64(n)-full-1)/before)
	}
	if share > 0 {
		p.Add(part, bucketSize*m/2, times)
		p.Add(part, bucketSize, share*before*children(before*bucketEntries, before)*times)
	}
	p.Add(part, bucketSize, (1-share)*float64(m)*children(float64(n), float64(m))*times)
}

// keyed adds the object of a value with the name of its key.
func (v *Value) keyed(p Parts) {
	p.Add(Keyed, v.keyBlock(false), 1-v.expires)
	p.Add(Keyed, v.keyBlock(true), v.expires)
}

// keyBlock is the object with its name.
func (v *Value) keyBlock(expires bool) uint64 {
	size := robj + nameHeader + sds(v.name)
	if expires || v.name >= expireFrom {
		size += expireSize
	}
	return size
}

// embedded reports whether the string is in the block of its key.
func (v *Value) embedded(expires bool) bool {
	size := robj + nameHeader + sds(v.name) + embHeader + v.str.Len + 1
	if expires {
		size += expireSize
	}
	return size <= longestKeyed
}

// keyedString adds a string value with its key. Integers are in the object.
func (v *Value) keyedString(p Parts) {
	for _, one := range []struct {
		expires bool
		times   float64
	}{{false, 1 - v.expires}, {true, v.expires}} {
		block := v.keyBlock(one.expires)
		switch {
		case v.str.IsInt:
		case v.embedded(one.expires):
			block += embHeader + v.str.Len + 1
		default:
			p.Add(Strings, sds(v.str.Len), one.times)
		}
		p.Add(Keyed, block, one.times)
	}
}

// bucketTable adds the table of a value that was packed up to limit elements, none longer than longest: the table is
// then made for one more.
func (v *Value) bucketTable(p Parts, limit, longest uint64, steps float64) {
	m := tops(v.Count)
	if v.Settled {
		m, steps = presized(v.Count), 0
	} else if first := presized(limit + 1); v.longest <= longest && first >= m {
		m, steps = first, 0
	}
	p.Add(Dicts, hashtableSize, 1)
	p.bucketed(Dicts, v.Count, m, steps, 1)
}

// pairBlocks adds the fields of a hash, each in a block with its value or with a pointer to it.
func (v *Value) pairBlocks(p Parts) {
	for lengths, count := range v.pairs {
		field, value := sds(lengths[0]), embHeader+lengths[1]+1
		if field+value <= longestPair {
			p.Add(Elements, field+value, float64(count))
			continue
		}
		field = max(field, embHeader+lengths[0]+1) // the shortest header has no room to mark the pointer
		p.Add(Elements, valuePointer+field, float64(count))
		p.Add(Elements, sds(lengths[1]), float64(count))
	}
}
