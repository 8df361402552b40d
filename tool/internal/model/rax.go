package model

import (
	"context"
	"fmt"
	"math"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Rax is the command `granary model rax`.
var Rax = cli.Command{
	Name: "model rax", Usage: "--keys N --key FORM [options]",
	Summary: "show how many nodes and bytes a radix tree of Redis (rax) has for keys of a given form",
	About: "A form is " + redis.Forms + ". The number of nodes is exact for running numbers and an expectation for random keys; its standard deviation is printed. " +
		"With --slots the keys are those of the first slots of Redis Cluster among --keys numbers, two bytes of the slot in front.",
	Examples: []cli.Example{
		{Line: "model rax --keys 1M --key '{seq:6}'", Does: "a million numbers of six digits: 1,111,111 nodes"},
		{Line: "model rax --keys 15M --key uuid", Does: "random keys"},
		{Line: "model rax --keys 45M --key '{hex:32}' --slots 5461", Does: "15,001,367 keys of a third of a cluster"},
	},
	Setup: raxSetup,
}

func raxSetup(fs *pflag.FlagSet) cli.Action {
	o := outputs(fs)
	keys := fs.String("keys", "", "how many `keys`, as in 20k or 15M")
	form := fs.String("key", "uuid", "the `form` of keys")
	slots := fs.Int("slots", 0, "only those of these keys that are in the first `N` of 16384 slots")
	values := fs.Bool("values", false, "each key has a value, as in streams")
	early := fs.Bool("early", false, "nodes as in Redis 4.0, without padding")
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		n, err := parseNumber("keys", *keys, 1<<40, "keys", "model rax --keys 15M")
		if err != nil {
			return err
		}
		key, err := redis.ParseKey(*form)
		if err != nil {
			return cli.Usagef("--key: %v", err)
		}
		if *slots < 0 || *slots > 1<<14 || *slots > 0 && (key.Slot || key.Digits > 0) {
			return cli.Usagef("--slots takes 1 to 16384, and a form of random keys without {slot}")
		}
		r := raxAccount{key, *slots, *values, redis.Today}
		if *early {
			r.layout = redis.Early
		}
		return o.run(ctx, env, func(context.Context, []cost.Allocator) (Account, error) { return r.account(n) })
	})
}

type raxAccount struct {
	key    redis.Key
	slots  int
	values bool
	layout redis.Layout
}

// tree is that of n keys, and how many of them are in it.
func (r raxAccount) tree(n uint64) (t redis.Tree, keys, variance float64, err error) {
	if r.slots > 0 {
		t, keys, variance = redis.Slotted(r.slots, r.key.Alphabets, n)
		return t, keys, variance, nil
	}
	t, variance, err = r.key.Tree(n)
	return t, float64(n), variance, err
}

func (r raxAccount) account(n uint64) (Account, error) {
	tree, keys, variance, err := r.tree(n)
	if err != nil {
		return Account{}, cli.Usagef("%v", err)
	}
	a := Account{Title: fmt.Sprintf("a radix tree of %s keys %s, %d bytes each", term.Count(uint64(keys)), r.key.Text, r.key.Len()), Unit: "key", Count: uint64(keys), Changing: true}
	leaves, branches, chains := cost.Heap{}, cost.Heap{}, cost.Heap{}
	kinds := redis.Tree{Leaves: tree.Leaves}
	kinds.Requests(r.layout, r.values, leaves.Add)
	redis.Tree{Branch: tree.Branch}.Requests(r.layout, r.values, branches.Add)
	redis.Tree{Chain: tree.Chain}.Requests(r.layout, r.values, chains.Add)
	a.Parts = []Part{{"leaves, where keys end", leaves}, {"nodes with several children", branches}, {"chains of letters", chains}}
	a.Facts = append(a.Facts, Fact{"nodes", tree.Nodes(), "count"}, Fact{"nodes a key", tree.Nodes() / math.Max(keys, 1), "mean"})
	if variance > 0 {
		a.Facts = append(a.Facts, Fact{"standard deviation of the nodes", math.Sqrt(variance), "mean"})
	}
	share := keys / float64(max(n, 1))
	a.At = func(count uint64) cost.Heap {
		h := cost.Heap{}
		at := uint64(float64(count) / math.Max(share, 1e-9))
		most := uint64(math.Min(r.key.Space(), 1<<60))
		if t, _, _, err := r.tree(min(at, most)); err == nil {
			t.Requests(r.layout, r.values, h.Add)
		}
		if at > most { // no further keys have the form
			h.Add(1<<60, 1)
		}
		return h
	}
	return a, nil
}
