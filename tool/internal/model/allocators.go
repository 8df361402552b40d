package model

import (
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/preload"

	"github.com/spf13/pflag"
)

// choice holds the flags that select the allocators.
type choice struct {
	names *string
	lib   *string
}

func chosen(fs *pflag.FlagSet) choice {
	return choice{
		fs.String("allocator", "", "only these `names`, separated by commas: glibc, jemalloc, jemalloc-redis (the one in Redis' sources), tcmalloc, google-tcmalloc, mimalloc, granary"),
		fs.String("lib", "", "the `library` whose size classes the column granary uses (default: libgranary.so beside this command, or installed)"),
	}
}

// allocators returns the chosen allocators. If the user did not name Granary and its library is missing,
// Granary is left out, and the note reports this.
func (c choice) allocators(env cli.Env) (list []cost.Allocator, note string, err error) {
	known := []cost.Allocator{cost.Glibc, cost.Jemalloc, cost.RedisJemalloc, cost.TCMalloc, cost.GoogleTCMalloc, cost.Mimalloc}
	var wanted, names []string
	if *c.names != "" {
		wanted = strings.Split(*c.names, ",")
	}
	if len(wanted) == 0 || slices.Contains(wanted, "granary") {
		granary, err := c.granary(env)
		switch {
		case err == nil:
			known = append(known, granary)
		case len(wanted) > 0:
			return nil, "", err
		default:
			note = "granary is left out: " + err.Error()
		}
	}
	if len(wanted) == 0 {
		return known, note, nil
	}
	for _, a := range known {
		names = append(names, a.Name)
	}
	for _, name := range wanted {
		at := slices.Index(names, name)
		if at < 0 {
			return nil, "", cli.Usagef("there is no model of the allocator %q: choose from %s", name, strings.Join(names, ", "))
		}
		list = append(list, known[at])
	}
	return list, "", nil
}

func (c choice) granary(env cli.Env) (cost.Allocator, error) {
	path, err := preload.Library(*c.lib, env.Getenv("GRANARY_LIB"), env.Exe)
	if err != nil {
		return cost.Allocator{}, err
	}
	library, err := inspect.OpenLibrary(path)
	if err != nil {
		return cost.Allocator{}, err
	}
	return cost.Granary(library.Classes), nil
}
