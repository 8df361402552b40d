package redis

// A Value collects the elements of one value, so that its requests are known in each encoding. It can be
// used again after Reset.
type Value struct {
	Type  string
	Count uint64 // elements; pairs of a hash
	// Settled reports that its table is not being moved to a larger one, as after a load.
	Settled bool

	name    uint64  // length of the key's name
	expires float64 // share of such keys that expire
	str     Element
	lengths map[uint64]uint64    // of elements: the strings that a table holds
	pairs   map[[2]uint64]uint64 // of fields with their values
	pack    uint64               // bytes of all entries in a listpack
	longest uint64
	ints    uint64 // how many elements are integers
	width   uint64 // of the widest of them
	nodes   []node // of a list
	extra   Parts  // further requests of the value
}

// A node of a list is a listpack, or an element alone.
type node struct {
	bytes uint64
	count uint64
	plain bool
}

// Reset makes it an empty value of a type.
func (v *Value) Reset(kind string) {
	lengths, pairs := v.lengths, v.pairs
	clear(lengths)
	clear(pairs)
	*v = Value{Type: kind, Settled: v.Settled, lengths: lengths, pairs: pairs, nodes: v.nodes[:0]}
	if v.lengths == nil {
		v.lengths, v.pairs = map[uint64]uint64{}, map[[2]uint64]uint64{}
	}
}

// Key sets the length of the key's name, and the share of the keys that expire among those that the value stands for.
func (v *Value) Key(name uint64, expires float64) { v.name, v.expires = name, expires }

// String sets the text of a string.
func (v *Value) String(e Element) { v.str, v.Count = e, 1 }

// Member adds an element of a set.
func (v *Value) Member(e Element) {
	v.Count++
	v.keep(e)
	if e.IsInt {
		v.ints++
		v.width = max(v.width, intWidth(e.Int))
	}
}

// Pair adds a field with its value.
func (v *Value) Pair(field, value Element) {
	v.Count++
	v.pairs[[2]uint64{field.Len, value.Len}]++
	v.size(field)
	v.size(value)
}

// Scored adds an element with its packed score: an integer, or text.
func (v *Value) Scored(e, score Element) {
	v.Count++
	v.keep(e)
	v.pack += packed(score)
}

func (v *Value) keep(e Element) {
	v.lengths[e.Len]++
	v.size(e)
}

// size adds an element to the packed form.
func (v *Value) size(e Element) {
	v.pack += packed(e)
	v.longest = max(v.longest, e.Len)
}

// Push appends an element to a list, which begins a new node where the last is full.
func (v *Value) Push(s Server, e Element) {
	v.Count++
	const estimate = 8 // the server's own count of the entry's bytes
	limit, most := nodeLimit(s.Limits.ListNode)
	if s.LargePlain && e.Len > limit {
		v.nodes = append(v.nodes, node{e.Len, 1, true})
		return
	}
	last := len(v.nodes) - 1
	if last < 0 || v.nodes[last].plain || v.nodes[last].bytes+e.Len+estimate > limit || v.nodes[last].count >= most {
		v.nodes = append(v.nodes, node{bytes: packHeader + packEnd})
		last++
	}
	v.nodes[last].bytes += packed(e)
	v.nodes[last].count++
}

// Node appends a complete node of a list.
func (v *Value) Node(bytes, count uint64, plain bool) {
	v.Count += count
	v.nodes = append(v.nodes, node{bytes, count, plain})
}

// nodeLimit is the largest node of a list, in bytes and in elements.
func nodeLimit(setting int64) (bytes, elements uint64) {
	const safety, all = 8 << 10, 1 << 62
	switch {
	case setting >= 0:
		return safety, uint64(max(setting, 1))
	case setting < -5:
		setting = -5
	}
	return 2 << 10 << -setting, all
}

// Encoding is the encoding in which the server stores the value.
func (v *Value) Encoding(s Server) string {
	l := s.Limits
	switch v.Type {
	case "string":
		switch {
		case v.str.IsInt:
			return "int"
		case s.Bucketed && v.embedded(v.expires > 0.5), !s.Bucketed && v.str.Len <= longestEmb:
			return "embstr"
		}
		return "raw"
	case "list":
		if s.SmallLists && len(v.nodes) <= 1 && (len(v.nodes) == 0 || !v.nodes[0].plain) {
			return "listpack"
		}
		return "quicklist"
	case "set":
		switch {
		case v.ints == v.Count && v.Count <= l.SetInts:
			return "intset"
		case s.SmallSets && v.Count <= l.SetEntries && v.longest <= l.SetValue:
			return "listpack"
		}
		return "hashtable"
	case "zset":
		if v.Count <= l.ZsetEntries && v.longest <= l.ZsetValue {
			return "listpack"
		}
		return "skiplist"
	case "hash":
		if v.Count <= l.HashEntries && v.longest <= l.HashValue {
			return "listpack"
		}
		return "hashtable"
	}
	return "stream"
}

// Requests are the requests of the value in the encoding that the server chooses.
func (v *Value) Requests(s Server) Parts { return v.As(s, v.Encoding(s)) }

// As are the requests in an encoding.
func (v *Value) As(s Server, encoding string) Parts {
	p := Parts{}
	p.Merge(v.extra, 1)
	switch {
	case v.Type == "string" && s.Bucketed:
		v.keyedString(p)
		return p
	case v.Type == "string":
		p.str(v.str, 1)
		return p
	case s.Bucketed:
		v.keyed(p)
	default:
		p.Add(Objects, robj, 1)
	}
	switch encoding {
	case "intset":
		const header = 8
		p.Add(Intsets, header+v.width*v.Count, 1)
	case "listpack":
		bytes := v.pack + packHeader + packEnd
		if v.Type == "list" && len(v.nodes) > 0 {
			bytes = v.nodes[0].bytes
		}
		p.Add(Listpacks, bytes, 1)
	case "quicklist":
		v.quicklist(p)
	case "hashtable":
		v.hashtable(p, s)
	case "skiplist":
		v.skiplist(p, s)
	}
	return p
}

func (v *Value) quicklist(p Parts) {
	p.Add(ListNodes, quicklist, 1)
	for _, n := range v.nodes {
		p.Add(ListNodes, quickNode, 1)
		p.Add(Listpacks, n.bytes, 1)
	}
}

// Insertions that move a table on: finding the place is one step, and looking before is another.
const lookAndInsert, insertOnly = 2, 1

func (v *Value) hashtable(p Parts, s Server) {
	const all = 1 << 62
	l := s.Limits
	switch {
	case v.Type == "hash":
		v.table(p, s, l.HashEntries, l.HashValue, lookAndInsert)
	case v.ints == v.Count:
		v.table(p, s, l.SetInts, all, insertOnly)
	case s.SmallSets:
		v.table(p, s, l.SetEntries, l.SetValue, insertOnly)
	default:
		v.table(p, s, 0, 0, insertOnly)
	}
}

// table adds the table of a set or hash that was packed up to a limit, with what its entries point to.
func (v *Value) table(p Parts, s Server, limit, longest uint64, insertion float64) {
	v.strings(p, s)
	if s.Bucketed {
		v.bucketTable(p, limit, longest, insertOnly) // of hashes too; the grid of redis_test.go has both
		return
	}
	steps := v.steps(limit, longest, insertion)
	if s.BareSets && v.Type == "set" {
		p.bareDict(v.Count, steps, 1)
		return
	}
	p.dict(v.Count, steps, 1)
}

// steps are the resizes of a table that grows by insertions; 0 for a table of its final size: loaded, or converted
// from the packed form, of up to limit elements, and did not grow since.
func (v *Value) steps(limit, value uint64, insertion float64) float64 {
	if v.Settled || v.longest <= value && buckets(v.Count) <= buckets(limit+1) {
		return 0
	}
	return insertion
}

// strings adds the elements, or the fields and values of a hash.
func (v *Value) strings(p Parts, s Server) {
	for length, count := range v.lengths {
		p.Add(Elements, sds(length), float64(count))
	}
	if s.Bucketed {
		v.pairBlocks(p)
		return
	}
	for lengths, count := range v.pairs {
		p.Add(Elements, sds(lengths[0]), float64(count))
		p.Add(Elements, sds(lengths[1]), float64(count))
	}
}

// skiplist adds a sorted set of a skip list and a table. A level has a quarter of the nodes of the level
// below it, so that a node has 4/3 levels on average.
func (v *Value) skiplist(p Parts, s Server) {
	v.strings(p, s)
	p.Add(Dicts, zsetSize, 1)
	if s.Bucketed {
		v.bucketTable(p, s.Limits.ZsetEntries, s.Limits.ZsetValue, lookAndInsert)
	} else {
		p.dict(v.Count, v.steps(0, 0, lookAndInsert), 1)
	}
	p.Add(Skiplists, zskiplist, 1)
	p.Add(Skiplists, skipNode(maxLevel), 1)
	left := float64(v.Count)
	for level := 1; level <= maxLevel && left > 1e-6; level++ {
		here := left * 0.75
		if level == maxLevel {
			here = left
		}
		p.Add(Skiplists, skipNode(level), here)
		left -= here
	}
}

// skipNode is the size of a node: element, score, backward pointer, and for each level a pointer and a
// span.
func skipNode(levels int) uint64 { return 24 + 16*uint64(levels) }

// Stream adds the nodes of a stream: listpacks of these sizes, under keys that are in order.
func (v *Value) Stream(nodes *Counter, listpacks map[uint64]uint64) {
	p := Parts{}
	p.Add(Streams, streamSize, 1)
	p.Add(Rax, raxSize, 1)
	tree := nodes.Tree()
	tree.Requests(Today, true, func(size uint64, count float64) { p.Add(Rax, size, count) })
	for bytes, count := range listpacks {
		p.Add(Listpacks, bytes, float64(count))
	}
	v.extra = p
}
