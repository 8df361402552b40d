package redis

// A Tree is the number of nodes of each kind in a radix tree. For random keys the numbers are
// expectations. Every key ends in a leaf, which is correct for keys of one length.
type Tree struct {
	Leaves float64
	Branch map[int]float64 // nodes with this many children, two or more
	Chain  map[int]float64 // nodes that hold this many letters in a row and have one child
}

func newTree() Tree { return Tree{Branch: map[int]float64{}, Chain: map[int]float64{}} }

// Nodes is the number of nodes, the head among them.
func (t Tree) Nodes() float64 {
	sum := t.Leaves
	for _, count := range t.Branch {
		sum += count
	}
	for _, count := range t.Chain {
		sum += count
	}
	return sum
}

// add puts the nodes of other, taken times over, into t.
func (t *Tree) add(other Tree, times float64) {
	t.Leaves += times * other.Leaves
	for children, count := range other.Branch {
		t.Branch[children] += times * count
	}
	for letters, count := range other.Chain {
		t.Chain[letters] += times * count
	}
}

// Layout describes the nodes of a release of Redis.
type Layout struct {
	Name   string
	Padded bool // the pointers are aligned to 8 bytes
}

// The layouts: up to Redis 4.0 the pointers followed the letters without padding.
var (
	Today = Layout{"today", true}
	Early = Layout{"early", false}
)

const header, pointer = 4, 8

// Node is the size of a node in bytes.
func (l Layout) Node(letters, children int, value bool) uint64 {
	size := header + letters
	if l.Padded {
		size = (size + pointer - 1) / pointer * pointer
	}
	size += pointer * children
	if value {
		size += pointer
	}
	return uint64(size)
}

// Requests calls each with the size of every node and the number of such nodes. With values, each
// leaf holds a pointer.
func (t Tree) Requests(l Layout, values bool, each func(size uint64, count float64)) {
	each(l.Node(0, 0, values), t.Leaves)
	for children, count := range t.Branch {
		each(l.Node(children, children, false), count)
	}
	for letters, count := range t.Chain {
		each(l.Node(letters, 1, false), count)
	}
}

// Bytes is the sum of the requests for the nodes.
func (t Tree) Bytes(l Layout, values bool) (sum float64) {
	t.Requests(l, values, func(size uint64, count float64) { sum += float64(size) * count })
	return sum
}
