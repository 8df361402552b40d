package model

import (
	"context"
	"fmt"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/model/redis"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Memcached is the command `granary model memcached`.
var Memcached = cli.Command{
	Name: "model memcached", Usage: "--keys N [options]",
	Summary: "forecast the memory of items in memcached",
	About: "All items have one size. memcached puts chunks of a class on pages of 1 MiB; the result is the number of pages of this class, and the hash table. " +
		"It excludes the server's own 5 MiB and the buffers of its connections.",
	Examples: []cli.Example{{Line: "model memcached --keys 10M --key 20 --value 100", Does: "pages, chunks and the hash table"}},
	Setup:    memcachedSetup,
}

func memcachedSetup(fs *pflag.FlagSet) cli.Action {
	o := outputs(fs)
	keys := fs.String("keys", "", "how many `keys`, as in 20k or 15M")
	key := fs.String("key", "20", "the length of keys in `bytes`, or a form such as uuid")
	value := fs.String("value", "100", "the length of values in `bytes`")
	flags := fs.Bool("flags", false, "clients store flags other than 0")
	factor := fs.Float64("factor", usualMemcached.Factor, "how much larger each class is, a `factor` (memcached -f)")
	least := fs.Uint64("least", usualMemcached.Least, "room of the smallest class in `bytes` (memcached -n)")
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		n, err := parseNumber("keys", *keys, 1<<40, "keys", "model memcached --keys 10M")
		if err != nil {
			return err
		}
		if *factor <= 1 || *factor > 16 || *least < 1 || *least > 1024 {
			return cli.Usagef("memcached takes a --factor above 1 (up to 16 here), and --least of 1 to 1024")
		}
		k, err := redis.ParseForm(*key)
		if err != nil || k.Ints {
			return cli.Usagef("--key %q is neither a length nor a form such as uuid", *key)
		}
		v, err := parseCount("value", *value, 1<<20)
		if err != nil {
			return err
		}
		s := memcachedSettings{Factor: *factor, Least: *least, CAS: true}
		return o.run(ctx, env, func(context.Context, []cost.Allocator) (Account, error) { return itemsAccount(s, n, k.Len, v, *flags) })
	})
}

func itemsAccount(s memcachedSettings, n, key, value uint64, flags bool) (Account, error) {
	l, err := s.Lay(n, key, value, flags)
	if err != nil {
		return Account{}, cli.Usagef("%v", err)
	}
	a := Account{Title: term.Count(n) + " items of memcached", Unit: "key", Count: n, Parts: []Part{{"pages of chunks", l.Slabs()}, {"hash table", l.Buckets()}}}
	a.Facts = []Fact{{"an item", float64(l.Item), "bytes"}, {"its chunk", float64(l.Chunk), "bytes"}, {"class", float64(l.Class), "count"},
		{"chunks on a page", float64(l.PerPage), "count"}, {"pages (memcached -m, MiB)", float64(l.Pages), "count"}}
	a.At = func(count uint64) cost.Heap {
		h := cost.Heap{}
		if l, err := s.Lay(count, key, value, flags); err == nil { // as it was above
			h.Merge(l.Slabs(), 1)
			h.Merge(l.Buckets(), 1)
		}
		return h
	}
	if unused := l.Chunk - l.Item; float64(unused) > 0.1*float64(l.Chunk) {
		a.Advice = append(a.Advice, fmt.Sprintf("%.0f %% of each chunk are unused; a smaller --factor (memcached -f) makes classes that fit better.", 100*float64(unused)/float64(l.Chunk)))
	}
	return a, nil
}
