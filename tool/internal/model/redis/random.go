package redis

import "math"

// Alphabets is the form of random keys of one length: how many letters each place chooses from, all of
// them equally likely and independent. A place of one letter is always the same.
type Alphabets []int

// Repeat is count places of an alphabet.
func Repeat(letters, count int) Alphabets {
	out := make(Alphabets, count)
	for i := range out {
		out[i] = letters
	}
	return out
}

// Space is the number of possible keys.
func (a Alphabets) Space() float64 {
	space := 1.0
	for _, letters := range a {
		space *= float64(letters)
	}
	return space
}

// negligible is the number of nodes below which a level is ignored.
const negligible = 1e-9

// Random is the expectation of the tree of that many different random keys.
func Random(a Alphabets, keys float64) Tree {
	t := newTree()
	t.Leaves = keys
	c := newChance(keys, a.Space())
	share := a.shares()
	for depth := range a {
		a.branches(&t, c, share, depth)
		a.chains(&t, c, share, depth)
	}
	return t
}

// shares are, per depth, the share of all keys that begin with one given prefix.
func (a Alphabets) shares() []float64 {
	out := []float64{1}
	for i, letters := range a {
		out = append(out, out[i]/float64(letters))
	}
	return out
}

// branches adds the nodes of a depth that have two children or more. Their number is exact; how many
// children each has is that of a Poisson number of keys.
func (a Alphabets) branches(t *Tree, c chance, share []float64, depth int) {
	letters, q := float64(a[depth]), share[depth]
	if a[depth] == 1 {
		return
	}
	count := (-math.Expm1(c.log(q)) - letters*c.only(q, share[depth+1])) / q
	if count < negligible {
		return
	}
	perChild := -math.Expm1(c.log(share[depth+1])) // the chance that a child is there
	weights, sum := make([]float64, a[depth]+1), 0.0
	for k := 2; k <= a[depth]; k++ {
		weights[k] = binomial(a[depth], k, perChild)
		sum += weights[k]
	}
	for k, weight := range weights {
		if part := count * weight / sum; part > negligible {
			t.Branch[k] += part
		}
	}
}

// chains adds the chains that begin at a depth, by their length: a prefix with one child, whose parent
// has several. begun[n] is the number of those that go on for n letters or more.
func (a Alphabets) chains(t *Tree, c chance, share []float64, depth int) {
	begun := func(letters int) float64 {
		end := share[depth+letters]
		count := c.only(share[depth], end)
		if depth > 0 {
			count -= c.only(share[depth-1], end)
		}
		return count / end
	}
	now := begun(1)
	for letters := 1; now > negligible && depth+letters <= len(a); letters++ {
		next := 0.0
		if depth+letters < len(a) {
			next = begun(letters + 1)
		}
		if exact := now - next; exact > negligible {
			t.Chain[letters] += exact
		}
		now = next
	}
}

// binomial is the chance of k hits in n tries of the chance p.
func binomial(n, k int, p float64) float64 {
	switch {
	case p >= 1:
		if k == n {
			return 1
		}
		return 0
	case p <= 0:
		return 0
	}
	ways := lgamma(float64(n)+1) - lgamma(float64(k)+1) - lgamma(float64(n-k)+1)
	return math.Exp(ways + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}
