package redis

// Numbered is the tree of the numbers 0 to keys-1, written with as many digits, behind a prefix of the
// given length. It is exact.
func Numbered(prefix, digits int, keys uint64) Tree {
	t := newTree()
	t.Leaves = float64(keys)
	numbers := func(depth int) uint64 { // prefixes of that many digits
		span := uint64(1)
		for range digits - depth {
			span *= 10
		}
		return (keys + span - 1) / span
	}
	chain := prefix
	for depth := range digits {
		all := numbers(depth)
		last := numbers(depth+1) - 10*(all-1) // children of the last one; those before it have ten
		if all > 1 {
			t.Branch[10] += float64(all - 1)
		}
		if last == 1 {
			chain++
			continue
		}
		t.Branch[int(last)]++
		t.endChain(&chain)
	}
	t.endChain(&chain)
	return t
}

func (t *Tree) endChain(letters *int) {
	if *letters > 0 {
		t.Chain[*letters]++
	}
	*letters = 0
}

// Slotted is the expectation of the tree of keys that begin with the two bytes of a slot of Redis
// Cluster, the high one first, as its own index of keys by slot has them. Slot s of the first slots has
// the numbers i of 0 to numbers-1 with i mod 16384 = s.
func Slotted(slots int, a Alphabets, numbers uint64) (t Tree, keys, variance float64) {
	const all = 1 << 14
	t = newTree()
	least, more := numbers/all, numbers%all
	fuller := min(uint64(slots), more)
	for _, group := range []struct {
		slots float64
		keys  uint64
	}{{float64(fuller), least + 1}, {float64(uint64(slots) - fuller), least}} {
		if group.slots == 0 || group.keys == 0 {
			continue
		}
		t.add(Random(a, float64(group.keys)), group.slots)
		keys += group.slots * float64(group.keys)
		variance += group.slots * Variance(a, float64(group.keys))
	}
	t.slots(slots)
	return t, keys, variance
}

// slots adds the nodes of the two bytes.
func (t *Tree) slots(slots int) {
	high := (slots + 255) / 256
	node := func(children, times int) {
		switch {
		case times == 0:
		case children == 1:
			t.Chain[1] += float64(times)
		default:
			t.Branch[children] += float64(times)
		}
	}
	node(high, 1)
	node(256, high-1)
	node(slots-256*(high-1), 1)
}
