package redis

import "bytes"

// A Counter builds the tree of keys of one length that come in order, and keeps no more than the last.
type Counter struct {
	tree     Tree
	last     []byte
	children []int // of the prefix of each length of the last key
}

// Add puts in the next key, which must be larger than those before. It is false for one that is not.
func (c *Counter) Add(key []byte) bool {
	if c.last == nil {
		c.tree = newTree()
		c.last = bytes.Clone(key)
		c.children = make([]int, len(key))
		for i := range c.children {
			c.children[i] = 1
		}
		c.tree.Leaves++
		return true
	}
	if len(key) != len(c.last) || bytes.Compare(key, c.last) <= 0 {
		return false
	}
	same := 0
	for key[same] == c.last[same] {
		same++
	}
	closePath(&c.tree, c.children, same+1, true)
	c.children[same]++
	for i := same + 1; i < len(key); i++ {
		c.children[i] = 1
	}
	copy(c.last, key)
	c.tree.Leaves++
	return true
}

// closePath adds the nodes of a path from depth down that gets no more children. ended means that the node
// above has several children.
func closePath(t *Tree, children []int, depth int, ended bool) {
	chain := 0
	for i := len(children) - 1; i >= depth; i-- {
		if children[i] == 1 {
			chain++
			continue
		}
		t.endChain(&chain)
		t.Branch[children[i]]++
	}
	if ended {
		t.endChain(&chain)
	}
}

// Tree returns the tree of the keys added up to now.
func (c *Counter) Tree() Tree {
	t := newTree()
	if c.last == nil {
		t.Leaves = 1 // the head, which every tree has
		return t
	}
	t.add(c.tree, 1)
	closePath(&t, c.children, 0, true)
	return t
}
