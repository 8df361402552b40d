package redis

// sds is the size of a string of Redis: a header that grows with the length, the letters, and a zero.
func sds(length uint64) uint64 {
	switch {
	case length > 0 && length < 1<<5:
		return 1 + length + 1
	case length < 1<<8:
		return 3 + length + 1
	case length < 1<<16:
		return 5 + length + 1
	case length < 1<<32:
		return 9 + length + 1
	}
	return 17 + length + 1
}

const (
	robj        = 16
	longestEmb  = 44 // with an sds header of 3 bytes in the object's own block
	sharedUpTo  = 10000
	embHeader   = 3
	dictSize    = 56
	dictEntry   = 24
	bareEntry   = 16
	zsetSize    = 16
	zskiplist   = 32
	maxLevel    = 32
	streamSize  = 80
	raxSize     = 24
	quicklist   = 40
	quickNode   = 40
	firstTable  = 4
	loadFactor1 = 0.6321205588285577 // 1-1/e: the share of buckets in use when there are as many keys as buckets
)

// str adds a string value and its object. number means an integer of 64 bits, which is stored inside the
// object.
func (p Parts) str(e Element, times float64) {
	switch {
	case e.IsInt && e.Int >= 0 && e.Int < sharedUpTo: // one object for all keys
	case e.IsInt:
		p.Add(Objects, robj, times)
	case e.Len <= longestEmb:
		p.Add(Objects, robj+embHeader+e.Len+1, times)
	default:
		p.Add(Objects, robj, times)
		p.Add(Strings, sds(max(e.Len, 1<<5)), times) // never the shortest header
	}
}
