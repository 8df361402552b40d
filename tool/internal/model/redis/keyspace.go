package redis

// Keyspace adds the memory of all keys: their names, the main table, and the table of keys that expire.
type Keyspace struct {
	Keys    uint64
	Expires uint64
	Names   map[uint64]float64 // how many keys have a name of that length
	Moving  bool               // the tables are being moved to larger ones: the worst moment
}

// Requests are the requests of the keyspace.
func (k Keyspace) Requests() Parts {
	p := Parts{}
	for length, count := range k.Names {
		p.Add(KeyNames, sds(length), count)
	}
	p.Add(MainEntries, dictEntry, float64(k.Keys))
	k.table(p, MainTable, k.Keys)
	p.Add(Expires, dictEntry, float64(k.Expires))
	k.table(p, Expires, k.Expires)
	return p
}

func (k Keyspace) table(p Parts, part Part, n uint64) {
	p.table(part, n, 0, 1)
	if size := buckets(n); k.Moving && size > firstTable {
		p.Add(part, 8*size*2, 1) // the next table, twice as large
	}
}
