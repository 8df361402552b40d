package redis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// built counts the nodes of the tree of sorted keys, from the common prefixes of neighbours.
func built(keys [][]byte, depth int, inChain int, t *Tree) {
	if depth == len(keys[0]) {
		t.endChain(&inChain)
		t.Leaves++
		return
	}
	var groups [][][]byte
	for i := 0; i < len(keys); {
		j := i + 1
		for j < len(keys) && keys[j][depth] == keys[i][depth] {
			j++
		}
		groups, i = append(groups, keys[i:j]), j
	}
	if len(groups) == 1 {
		built(groups[0], depth+1, inChain+1, t)
		return
	}
	t.endChain(&inChain)
	t.Branch[len(groups)]++
	for _, g := range groups {
		built(g, depth+1, 0, t)
	}
}

// drawn are that many different keys.
func drawn(a Alphabets, count int, r *rand.Rand) [][]byte {
	seen := map[string]bool{}
	var out [][]byte
	for len(out) < count {
		key := make([]byte, len(a))
		for i, letters := range a {
			key[i] = byte(r.IntN(letters))
		}
		if !seen[string(key)] {
			seen[string(key)], out = true, append(out, key)
		}
	}
	slices.SortFunc(out, func(x, y []byte) int { return slices.Compare(x, y) })
	return out
}

func simulate(a Alphabets, count int, r *rand.Rand) Tree {
	t := newTree()
	built(drawn(a, count, r), 0, 0, &t)
	return t
}

var keyForms = map[string]Alphabets{
	"hex":      Repeat(16, 32),
	"letters":  Repeat(26, 8),
	"bytes":    Repeat(256, 16),
	"bits":     Repeat(2, 40),
	"prefixed": append(Repeat(1, 5), Repeat(10, 12)...),
	"uuid":     mustKey("uuid").Alphabets,
}

func mustKey(text string) Key {
	k, err := ParseKey(text)
	if err != nil {
		panic(err)
	}
	return k
}

func TestExpectationIsTheMeanOfBuiltTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, a := range keyForms {
		for _, keys := range []int{100, 3000} {
			const trees = 30
			var nodes, bytes, squares float64
			for range trees {
				one := simulate(a, keys, r)
				nodes += one.Nodes() / trees
				squares += one.Nodes() * one.Nodes() / trees
				bytes += one.Bytes(Today, false) / trees
			}
			model := Random(a, float64(keys))
			sigma := math.Sqrt(Variance(a, float64(keys)))
			if d := math.Abs(model.Nodes() - nodes); d > 4*sigma/math.Sqrt(trees) {
				t.Errorf("%s, %d keys: %.1f nodes expected, %.1f built, sigma %.2f", name, keys, model.Nodes(), nodes, sigma)
			}
			if got := math.Sqrt(squares - nodes*nodes); got < 0.55*sigma || got > 1.6*sigma {
				t.Errorf("%s, %d keys: sigma %.2f expected, %.2f found", name, keys, sigma, got)
			}
			if b := model.Bytes(Today, false); math.Abs(b/bytes-1) > 0.01 {
				t.Errorf("%s, %d keys: %.0f bytes expected, %.0f built", name, keys, b, bytes)
			}
		}
	}
}

func TestVarianceIsThatOfManyTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		keys int
	}{{"hex", 500}, {"letters", 200}, {"bits", 300}, {"uuid", 400}} {
		const trees = 1500
		var sum, squares float64
		for range trees {
			n := simulate(keyForms[c.name], c.keys, r).Nodes()
			sum, squares = sum+n, squares+n*n
		}
		mean := sum / trees
		found, model := squares/trees-mean*mean, Variance(keyForms[c.name], float64(c.keys))
		if math.Abs(found/model-1) > 0.15 { // four deviations of a variance of 1500 trees
			t.Errorf("%s, %d keys: variance %.1f, of built trees %.1f", c.name, c.keys, model, found)
		}
	}
}

func TestManyOfThePossibleKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := Repeat(10, 4)
	for _, keys := range []int{200, 5000, 9000, 10000} {
		var nodes float64
		const trees = 20
		for range trees {
			nodes += simulate(a, keys, r).Nodes() / trees
		}
		if got := Random(a, float64(keys)).Nodes(); math.Abs(got/nodes-1) > 0.003 {
			t.Errorf("%d of 10000 keys: %.1f nodes expected, %.1f built", keys, got, nodes)
		}
	}
	if got := Random(a, 10000).Nodes(); math.Abs(got-11111) > 0.01 {
		t.Errorf("all of 10000 keys: %v nodes", got)
	}
}

func TestNumbers(t *testing.T) {
	tree := Numbered(0, 6, 1_000_000)
	if tree.Nodes() != 1_111_111 || tree.Bytes(Today, false) != 8e6+111_111*96 {
		t.Errorf("a million numbers: %v nodes, %v bytes", tree.Nodes(), tree.Bytes(Today, false))
	}
	for _, count := range []uint64{1, 2, 9, 10, 11, 99, 100, 101, 1234, 9999, 10000} {
		want := newTree()
		var keys [][]byte
		for i := range count {
			keys = append(keys, fmt.Appendf(nil, "user:%04d", i))
		}
		built(keys, 0, 0, &want)
		if got := Numbered(5, 4, count); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d numbers: %v, want %v", count, got, want)
		}
	}
}

func TestSlots(t *testing.T) {
	tree, keys, variance := Slotted(5461, Repeat(16, 32), 45_000_000)
	sigma := math.Sqrt(variance)
	if keys != 15_001_367 {
		t.Errorf("%v keys", keys)
	}
	for _, counted := range []float64{35_066_975, 35_065_497} { // two fills of the real tree
		if math.Abs(tree.Nodes()-counted) > 4*sigma {
			t.Errorf("%.0f nodes expected, sigma %.0f, counted %.0f", tree.Nodes(), sigma, counted)
		}
	}
	t.Logf("%.0f nodes, sigma %.0f", tree.Nodes(), sigma)
	r := rand.New(rand.NewPCG(7, 8))
	want := newTree()
	var list [][]byte
	for slot := range 300 {
		for _, rest := range drawn(Repeat(16, 8), 3, r) {
			list = append(list, append([]byte{byte(slot >> 8), byte(slot)}, rest...))
		}
	}
	built(list, 0, 0, &want)
	small, _, _ := Slotted(300, Repeat(16, 8), 3*16384)
	if math.Abs(small.Nodes()/want.Nodes()-1) > 0.01 || want.Branch[256] != small.Branch[256] || want.Branch[44] != small.Branch[44] {
		t.Errorf("300 slots: %v nodes expected, %v built", small, want)
	}
}

func TestLimitIsTheMeanOverAPeriod(t *testing.T) {
	for _, letters := range []int{2, 10, 16, 26, 64} {
		branches, chains := NodesPerKey(letters)
		mean, points := 0.0, 64
		a := Repeat(letters, int(40/math.Log2(float64(letters)))+20)
		for i := range points {
			keys := 1e5 * math.Pow(float64(letters), float64(i)/float64(points))
			mean += Random(a, keys).Nodes() / keys / float64(points)
		}
		if want := 1 + branches + chains; math.Abs(mean/want-1) > 0.001 {
			t.Errorf("%d letters: %.4f nodes a key, mean of a period %.4f", letters, want, mean)
		}
	}
}

func TestEarlyLayout(t *testing.T) {
	// The million numbers without padding, leaves rounded to 8 bytes: 18.4 MB.
	tree := Numbered(0, 6, 1_000_000)
	var sum float64
	tree.Requests(Early, false, func(size uint64, count float64) { sum += float64(max(size, 8)) * count })
	if math.Round(sum/1e5) != 184 {
		t.Errorf("%.0f bytes", sum)
	}
}

func TestCounterBuildsTheSameTree(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for name, a := range keyForms {
		for _, count := range []int{1, 2, 50, 2000} {
			keys := drawn(a, count, r)
			want := newTree()
			built(keys, 0, 0, &want)
			var c Counter
			for _, key := range keys {
				if !c.Add(key) {
					t.Fatal("a key in order is refused")
				}
			}
			if got := c.Tree(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %d keys: %v, want %v", name, count, got, want)
			}
			if c.Add(keys[0]) {
				t.Error("a key out of order is taken")
			}
		}
	}
}
