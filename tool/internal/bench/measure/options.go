package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"

	"github.com/spf13/pflag"
)

// Options are the flags that every scenario has.
type Options struct {
	Quick      bool
	Rounds     int
	Allocators Names
	JSON       string
	Out        string
	Goal       string
	Variants   bool
	Lib        string

	flags *pflag.FlagSet // distinguishes flags on the command line from defaults
}

// Rounds is the default number of rounds.
type Rounds struct{ Full, Quick int }

// Names is a flag that may be given several times.
type Names string

func (l *Names) String() string { return string(*l) }

// Type is the word that help shows for the value.
func (l *Names) Type() string { return "names" }

// Set appends to the earlier names.
func (l *Names) Set(value string) error {
	if *l != "" {
		value = string(*l) + "," + value
	}
	*l = Names(value)
	return nil
}

// Register declares the options on fs.
func (o *Options) Register(fs *pflag.FlagSet, rounds Rounds) {
	o.flags = fs
	fs.BoolVar(&o.Quick, "quick", false, "a smaller run, of a few minutes on two cores")
	fs.IntVar(&o.Rounds, "rounds", 0, fmt.Sprintf("how often each allocator is measured (default %d, with --quick %d)", rounds.Full, rounds.Quick))
	fs.Var(&o.Allocators, "allocators", "names separated by commas, NAME=PATH[,VARIABLE=VALUE...], or NAME:SETTING=VALUE[+SETTING=VALUE...] (default: all that are found)")
	fs.BoolVar(&o.Variants, "variants", false, "also the settings that people use: "+strings.Join(allocators.Variants, ", "))
	fs.StringVar(&o.JSON, "json", "", "write everything measured to this `file`")
	fs.StringVar(&o.Out, "out", "", "write results and report into this `folder`; adds rounds to those that it already contains")
	fs.StringVar(&o.Goal, "goal", "rss", "the `goal` whose advice comes first: rss, throughput, p99 or cpu")
	fs.StringVar(&o.Lib, "lib", "", "the `library` measured as granary (default: libgranary.so beside this command, or installed)")
}

// Check refuses options that make no sense and fills in the defaults.
func (o *Options) Check(rounds Rounds) error {
	if o.Rounds < 0 || o.Rounds == 0 && o.flags != nil && o.flags.Changed("rounds") {
		return cli.Usagef("--rounds must be 1 or more")
	}
	if o.Rounds == 0 {
		o.Rounds = rounds.Full
		if o.Quick {
			o.Rounds = rounds.Quick
		}
	}
	return nil
}

// Select finds the allocators that the options ask for.
func (o *Options) Select(env cli.Env) ([]allocators.Allocator, []string, error) {
	finder := allocators.Finder{
		LibraryDirs: preload.LibraryDirs(),
		PeersDir:    allocators.PeersDir(env.Getenv),
		FindGranary: func() (string, error) { return preload.Library(o.Lib, env.Getenv("GRANARY_LIB"), env.Exe) },
	}
	selected, notes, err := finder.Select(string(o.Allocators))
	if err == nil && o.Variants {
		selected = allocators.AddVariants(selected)
	}
	return selected, notes, err
}

// NewResults are empty results of a scenario that starts now.
func NewResults(env cli.Env, scenario string, settings map[string]any, selected []allocators.Allocator, rows []result.Row) *result.Results {
	now, machine := time.Now(), result.Facts("/")
	return &result.Results{
		Schema: result.Schema, Scenario: scenario, Version: env.Version, Started: now, Settings: settings,
		Machine: machine, Allocators: selected, Rows: rows, Sessions: []result.Session{{Started: now, Version: env.Version, Machine: machine}},
	}
}

// Ended is the error of a run for the user: an interrupted run ends with 130, as a shell expects.
func Ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return &cli.ExitError{Code: 130, Err: errors.New("interrupted; the finished results are above")}
	}
	return err
}
