package model

import (
	"context"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// MariaDB is the command `granary model mariadb`.
var MariaDB = cli.Command{
	Name: "model mariadb", Usage: "--connections N [options]",
	Summary: "show the memory that connections need in MariaDB (10.11)",
	About: "A connection has run a statement and waits for the next. The figures exclude three kinds of memory: that of running statements, " +
		"the pools of 4 MiB for transactions of InnoDB, and stacks. RESIDENT assumes that every page is written; idle connections write to about half of theirs.",
	Examples: []cli.Example{{Line: "model mariadb --connections 4096", Does: "by structure and allocator"}},
	Setup:    mariadbSetup,
}

func mariadbSetup(fs *pflag.FlagSet) cli.Action {
	o := outputs(fs)
	number := fs.String("connections", "", "how many `connections`")
	s := usualMariaDB
	const least, most = 1 << 10, 1 << 30
	variables := []struct {
		name  string
		value *uint64
	}{{"net-buffer-length", &s.NetBuffer}, {"query-alloc-block-size", &s.QueryBlock}, {"transaction-alloc-block-size", &s.TransactionBlock}, {"thread-stack", &s.Stack}}
	for _, v := range variables {
		fs.Uint64Var(v.value, v.name, *v.value, "the server's variable, in `bytes`")
	}
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		n, err := parseNumber("connections", *number, 1e6, "connections", "model mariadb --connections 4096")
		if err != nil {
			return err
		}
		for _, v := range variables {
			if *v.value < least || *v.value > most {
				return cli.Usagef("--%s %d is not between 1 KiB and 1 GiB, which MariaDB takes", v.name, *v.value)
			}
		}
		return o.run(ctx, env, func(context.Context, []cost.Allocator) (Account, error) { return connections(s, n), nil })
	})
}

func connections(s mariadbSettings, n uint64) Account {
	a := Account{Title: term.Count(n) + " connections of MariaDB 10.11", Unit: "connection", Count: n}
	one := cost.Heap{}
	for _, p := range []Part{
		{"sessions (THD)", s.Session()},
		{"buffers for packets and rows", s.Buffers()},
		{"first blocks of statements and transactions", s.Blocks()},
		{"smaller ones", s.Small()},
	} {
		one.Merge(p.Heap, 1)
		all := cost.Heap{}
		all.Merge(p.Heap, float64(n))
		a.Parts = append(a.Parts, Part{p.Name, all})
	}
	a.At = func(count uint64) cost.Heap {
		h := cost.Heap{}
		h.Merge(one, float64(count))
		return h
	}
	a.Facts = []Fact{{"address space of stacks", float64(n * s.Stack), "bytes"}}
	return a
}
