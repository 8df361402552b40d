package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/micro"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"

	"github.com/spf13/pflag"
)

// A Suite is a file of scenarios.
type Suite struct {
	Entries []Entry `toml:"scenario"`
}

// An Entry is one scenario with its options at each size, and the time that it is expected to take.
type Entry struct {
	Name  string   `toml:"name"`
	Args  []string `toml:"args"`
	Quick []string `toml:"quick"`
	// Seconds that one allocator takes in one round, on a machine of two CPUs; the forecast until it is measured.
	Seconds struct {
		Full  float64 `toml:"full"`
		Quick float64 `toml:"quick"`
	} `toml:"seconds"`
	Prepare float64 `toml:"prepare"` // seconds, once
}

// Read reads and checks a suite file.
func Read(path string) (Suite, error) {
	var s Suite
	if err := preload.ReadSuite(path, "suite", &s); err != nil {
		return s, err
	}
	for i, e := range s.Entries {
		if !slices.Contains(suiteNames(), e.Name) {
			return s, fmt.Errorf("%s: there is no scenario %q; choose from %s", path, e.Name, strings.Join(suiteNames(), ", "))
		}
		if slices.ContainsFunc(s.Entries[:i], func(o Entry) bool { return o.Name == e.Name }) {
			return s, fmt.Errorf("%s: %s is listed twice, but has one folder for its results", path, e.Name)
		}
	}
	if len(s.Entries) == 0 {
		return s, fmt.Errorf("%s: it has no [[scenario]]", path)
	}
	return s, nil
}

// microName is the scenario that is no server: the programs of `granary bench micro`.
const microName = "micro"

// names are the scenarios that a suite may hold.
func suiteNames() []string {
	var out []string
	for _, s := range All {
		out = append(out, s.Name)
	}
	return append(out, microName)
}

// only keeps the entries that are named; none is all.
func (s Suite) only(wanted []string) (Suite, error) {
	if len(wanted) == 0 {
		return s, nil
	}
	var have []string
	for _, e := range s.Entries {
		have = append(have, e.Name)
	}
	for _, name := range wanted {
		if !slices.Contains(have, name) {
			return s, cli.Usagef("--only: there is no %q in the suite; choose from %s", name, strings.Join(have, ", "))
		}
	}
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return !slices.Contains(wanted, e.Name) })
	return s, nil
}

// options are those of the entry at a size.
func (e Entry) options(size runner.Size) []string {
	if size == runner.Quick {
		return e.Quick
	}
	return e.Args
}

// seconds is the forecast of a visit at a size.
func (e Entry) seconds(size runner.Size) float64 {
	if size == runner.Quick {
		return e.Seconds.Quick
	}
	return e.Seconds.Full
}

// rounds is the default number of rounds.
func (e Entry) rounds(size runner.Size) int {
	of := micro.Rounds
	for _, s := range All {
		if s.Name == e.Name {
			of = s.Rounds
		}
	}
	if size == runner.Quick {
		return of.Quick
	}
	return of.Full
}

// open makes the entry ready to be measured with the given options.
func (e Entry) open(ctx context.Context, env cli.Env, args []string) (*measure.Session, error) {
	if e.Name == microName {
		return micro.Open(ctx, env, args)
	}
	i := slices.IndexFunc(All, func(s runner.Scenario) bool { return s.Name == e.Name })
	fs := pflag.NewFlagSet(e.Name, pflag.ContinueOnError)
	in := All[i].Declare(fs)
	if err := fs.Parse(args); err != nil {
		return nil, fmt.Errorf("the suite's options: %w", err)
	}
	return All[i].Open(ctx, env, in)
}
