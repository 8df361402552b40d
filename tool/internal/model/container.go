package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Container is the command `granary model container`.
var Container = cli.Command{
	Name: "model container", Usage: "KIND --count N [options]",
	Summary: "forecast the memory of a container of C++'s standard library",
	About: "The containers are those of GCC (libstdc++). KIND is " + strings.Join(containerKinds, ", ") + ". --element is the type of elements, or of a map's keys; " +
		"both take a number of bytes, or string:20 for a std::string of 20 letters.",
	Examples: []cli.Example{{Line: "model container unordered_map --count 10M --element string:36", Does: "nodes, buckets and strings"}},
	Takes:    cli.Words, Choices: func() []string { return containerKinds },
	Setup: containerSetup,
}

func containerSetup(fs *pflag.FlagSet) cli.Action {
	o := outputs(fs)
	number := fs.String("count", "", "how many `elements`, as in 20k or 15M")
	element := fs.String("element", "8", "the `type` of elements, or of keys")
	value := fs.String("value", "8", "the `type` of a map's values")
	return cli.Arguments(1, 1, "the kind of container: "+strings.Join(containerKinds, ", "), func(ctx context.Context, env cli.Env, args []string) error {
		if !slices.Contains(containerKinds, args[0]) {
			return cli.Usagef("%q is no kind of container: choose %s", args[0], strings.Join(containerKinds, ", "))
		}
		n, err := parseNumber("count", *number, mostBuckets, "elements", "model container vector --count 10M")
		if err != nil {
			return err
		}
		s := containerSpec{Kind: args[0], Count: n}
		if s.Key, err = parseElement(*element); err != nil {
			return cli.Usagef("--element: %v", err)
		}
		if s.Value, err = parseElement(*value); err != nil {
			return cli.Usagef("--value: %v", err)
		}
		return o.run(ctx, env, func(context.Context, []cost.Allocator) (Account, error) { return containerAccount(s), nil })
	})
}

func containerAccount(s containerSpec) Account {
	of := s.Key.Text
	if strings.HasSuffix(s.Kind, "map") {
		of += ", " + s.Value.Text
	}
	a := Account{Title: fmt.Sprintf("std::%s<%s> of %s elements", s.Kind, of, term.Count(s.Count)), Unit: "element", Count: s.Count}
	for _, p := range []Part{{"nodes", s.Nodes()}, {"arrays", s.Tables()}, {"strings", s.Strings()}} {
		if len(p.Heap) > 0 {
			a.Parts = append(a.Parts, p)
		}
	}
	if peak := s.Peak(); peak > 0 {
		a.Facts = append(a.Facts, Fact{"bytes of the array before, there too while it last grew", float64(peak), "bytes"})
	}
	a.At = func(count uint64) cost.Heap {
		other := s
		other.Count = count
		h := cost.Heap{}
		for _, part := range []cost.Heap{other.Nodes(), other.Tables(), other.Strings()} {
			h.Merge(part, 1)
		}
		return h
	}
	return a
}
