package redis

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFurtherBucketsAreThoseOfASimulation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ n, m, rounds int }{{7, 1, 1}, {8, 1, 1}, {14, 1, 1}, {14, 2, 40_000}, {20, 4, 40_000}, {1_000, 256, 400}, {7 * 4096, 4096, 30}} {
		sum, squares := 0.0, 0.0
		for range c.rounds {
			buckets := make([]int, c.m)
			for range c.n {
				buckets[r.IntN(c.m)]++
			}
			further := 0.0
			for _, entries := range buckets {
				for places := bucketEntries; entries > places; places += bucketEntries - 1 { // each takes a place for its pointer
					further++
				}
			}
			sum, squares = sum+further, squares+further*further
		}
		mean := sum / float64(c.rounds)
		deviation := math.Sqrt(max(0, squares/float64(c.rounds)-mean*mean) / float64(c.rounds))
		if got := float64(c.m) * children(float64(c.n), float64(c.m)); math.Abs(got-mean) > 4*deviation+1e-9 {
			t.Errorf("%d entries in %d buckets: %.4f further ones, said is %.4f, deviation %.4f", c.n, c.m, mean, got, deviation)
		}
	}
}

func TestBucketsOfATable(t *testing.T) {
	for _, c := range []struct{ n, grown, made uint64 }{
		{0, 0, 0}, {1, 1, 1}, {6, 1, 1}, {7, 1, 2}, {8, 2, 2}, {12, 2, 2}, {13, 2, 4}, {14, 2, 4}, {15, 4, 4}, {224, 32, 64}, {225, 64, 64}, {1 << 20, 1 << 18, 1 << 18},
	} {
		if tops(c.n) != c.grown || presized(c.n) != c.made {
			t.Errorf("%d entries: %d buckets, %d if made for them; want %d and %d", c.n, tops(c.n), presized(c.n), c.grown, c.made)
		}
	}
}

// The blocks of a key are those that MEMORY USAGE of Valkey 8.1.8 shows, before the allocator rounds.
func TestBlocksOfAKey(t *testing.T) {
	valkey, err := Find("valkey-8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, length uint64
		encoding     string
		blocks       []uint64
	}{
		{5, 32, "embstr", []uint64{60}}, {5, 40, "raw", []uint64{24, 44}}, {16, 20, "embstr", []uint64{59}}, {16, 25, "embstr", []uint64{64}}, {16, 26, "raw", []uint64{35, 28}},
		{32, 5, "embstr", []uint64{62}}, {36, 100, "raw", []uint64{57, 104}}, {130, 1, "raw", []uint64{159, 3}},
	} {
		var v Value
		v.Reset("string")
		v.Key(c.name, 0)
		v.String(Element{Len: c.length})
		heap := v.Requests(valkey).Heap()
		for _, size := range c.blocks {
			if heap[size] != 1 {
				t.Errorf("name of %d, string of %d: %v, want %v", c.name, c.length, heap, c.blocks)
			}
		}
		if len(heap) != len(c.blocks) || v.Encoding(valkey) != c.encoding {
			t.Errorf("name of %d, string of %d: %v as %s, want %v as %s", c.name, c.length, heap, v.Encoding(valkey), c.blocks, c.encoding)
		}
	}
}

func TestTheModelOfAVersion(t *testing.T) {
	for _, c := range []struct {
		version string
		valkey  bool
		model   string
		known   bool
	}{
		{"7.0.15", false, "redis-7.0", true}, {"8.0.6", false, "redis-8.0", true}, {"8.2.0", false, "redis-8.0", false},
		{"7.2.4", true, "redis-8.0", true}, {"8.0.1", true, "redis-8.0", false}, {"8.1.8", true, "valkey-8.1", true}, {"9.1.0", true, "valkey-8.1", false},
		{"", true, "redis-7.0", false},
	} {
		if s, known := Nearest(c.version, c.valkey); s.Name != c.model || known != c.known {
			t.Errorf("%s, Valkey %v: %s, known %v; want %s, %v", c.version, c.valkey, s.Name, known, c.model, c.known)
		}
	}
}
