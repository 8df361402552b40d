package redis

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	goredis "github.com/redis/go-redis/v9"
)

// preloads are the allocators of this machine that a server can be given, by their files.
func preloads(t *testing.T) map[string]cost.Allocator {
	t.Helper()
	library := testkit.Library(t)
	l, err := inspect.OpenLibrary(library)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]cost.Allocator{library: cost.Granary(l.Classes)}
	for pattern, a := range map[string]cost.Allocator{
		"/lib/*/libc.so.6": cost.Glibc, jemallocs: cost.Jemalloc,
		"/usr/lib/*/libtcmalloc_minimal.so.4": cost.TCMalloc, "/usr/lib/*/libmimalloc.so.2.0": cost.Mimalloc,
	} {
		paths, _ := filepath.Glob(pattern) // well formed
		for _, path := range paths {
			out[path] = a
		}
	}
	return out
}

func TestResidentBytesOfAServerUnderEachAllocator(t *testing.T) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Skip("there is no " + name)
			}
			residentUnderEach(t, path)
		})
	}
}

func residentUnderEach(t *testing.T, path string) {
	sets := []Spec{
		{Type: "string", Keys: 200_000, Key: Form{Len: 36}, Value: Form{Len: 100}},
		{Type: "zset", Keys: 1, Members: 200_000, Key: Form{Len: 20}, Member: Form{Len: 30}},
	}
	for preload, a := range preloads(t) {
		l := start(t, preloaded(t, path, preload))
		l.allocator = a
		resident := func() float64 {
			m, err := procfs.Live().Memory(l.pid)
			if err != nil {
				t.Fatal(err)
			}
			return float64(m.RSS)
		}
		l.settle(t)
		before, p := resident(), Parts{}
		for _, s := range sets {
			s.Server = l.model
			one, err := s.Population(a)
			if err != nil {
				t.Fatal(err)
			}
			p.Merge(one.Parts(), 1)
			l.fill(t, s)
		}
		l.settle(t)
		after := resident()
		for range 30 { // an allocator that purges free memory does so within seconds
			time.Sleep(100 * time.Millisecond)
			after = min(after, resident())
		}
		got, want := a.Of(p.Heap()).Resident, after-before
		t.Logf("%-10s %+.2f %% of %.0f", a.Name, 100*(got/want-1), want)
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%s: %.0f bytes are resident, said is %.0f", a.Name, want, got)
		}
	}
}

// treeOf counts the nodes of the server's own radix tree: a stream of one entry a node has a key of 16
// bytes for each.
func (l live) treeOf(t *testing.T, keys [][]byte) float64 {
	t.Helper()
	ctx := context.Background()
	if err := l.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(keys, func(a, b []byte) int { return slices.Compare(a, b) })
	pipe := l.Pipeline()
	for _, key := range keys {
		id := strconv.FormatUint(binary.BigEndian.Uint64(key), 10) + "-" + strconv.FormatUint(binary.BigEndian.Uint64(key[8:]), 10)
		pipe.XAdd(ctx, &goredis.XAddArgs{Stream: "s", ID: id, Values: []string{"f", "v"}})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	info, err := l.XInfoStream(ctx, "s").Result()
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.RadixTreeNodes)
}

func TestNodesAreThoseOfTheRealRadixTree(t *testing.T) {
	for _, l := range servers(t) {
		if err := l.ConfigSet(context.Background(), "stream-node-max-entries", "1").Err(); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(11, 12))
		for _, c := range []struct {
			form string
			keys uint64
		}{{"{hex:16}", 20_000}, {"{bytes:16}", 20_000}, {"{digits:10}------", 5_000}, {"id:{letters:13}", 20_000}, {"0123456789{seq:6}", 23_456}} {
			k, err := ParseKey(c.form)
			if err != nil {
				t.Fatal(err)
			}
			tree, variance, err := k.Tree(c.keys)
			if err != nil {
				t.Fatal(err)
			}
			got := l.treeOf(t, made(k, c.keys, r))
			if off := math.Abs(got - tree.Nodes()); off > 5*math.Sqrt(variance)+0.01 || off > 0.01*got {
				t.Errorf("%s: %d keys %s: %.0f nodes, said is %.1f with deviation %.1f", l.model.Name, c.keys, c.form, got, tree.Nodes(), math.Sqrt(variance))
			}
		}
	}
}

// made are different keys of a form.
func made(k Key, count uint64, r *rand.Rand) [][]byte {
	seen := map[string]bool{}
	var out [][]byte
	for n := uint64(0); uint64(len(out)) < count; n++ {
		key := make([]byte, 0, 16)
		for _, letters := range k.Alphabets {
			key = append(key, byte('!'+r.IntN(letters)))
		}
		rest := n
		for i := range k.Digits {
			_ = i
			key = append(key, '0')
		}
		for i := len(key) - 1; i >= len(k.Alphabets); i-- {
			key[i], rest = byte('0'+rest%10), rest/10
		}
		if !seen[string(key)] {
			seen[string(key)], out = true, append(out, key)
		}
	}
	return out
}
