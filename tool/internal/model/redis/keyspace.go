package redis

// Keyspace adds the memory of all keys: their names, the main table, and the table of keys that expire.
type Keyspace struct {
	Keys    uint64
	Expires uint64
	Names   map[uint64]float64 // how many keys have a name of that length
	Moving  bool               // the tables are being moved to larger ones: the worst moment
	Loaded  bool               // the tables were made for their number of keys, as after a load
	Server  Server
}

// Requests are the requests of the keyspace.
func (k Keyspace) Requests() Parts {
	p := Parts{}
	if k.Server.Bucketed {
		k.buckets(p, MainTable, k.Keys)
		k.buckets(p, Expires, k.Expires)
		return p
	}
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

// buckets adds a table of buckets; the objects have the names.
func (k Keyspace) buckets(p Parts, part Part, n uint64) {
	m := k.tops(n)
	p.bucketed(part, n, m, 0, 1)
	if k.Moving && m > 0 {
		p.Add(part, bucketSize*m*2, 1)
	}
}

func (k Keyspace) tops(n uint64) uint64 {
	if k.Loaded {
		return presized(n)
	}
	return tops(n)
}

// Growth is the number of keys beyond which the main table is moved to a larger one, and the bytes of that.
func (k Keyspace) Growth() (keys, bytes uint64) {
	if k.Server.Bucketed {
		m := k.tops(k.Keys)
		return bucketEntries * m, bucketSize * m * 2
	}
	m := buckets(k.Keys)
	return m, 8 * m * 2
}
