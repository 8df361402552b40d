package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

// Command is the command `granary profile`.
var Command = cli.Command{
	Name: "profile", Usage: "PID|NAME|CORE [options]", Takes: cli.PIDs,
	Summary: "show the code that allocates, keeps and pins the memory of a process",
	About: `Sampling is switched on in the process, which runs on, and off again at the end; where it was on
before, its samples are shown immediately. Ctrl-C ends the wait and keeps the samples. Objects allocated before the
start of sampling are shown by size class, because their stacks are unknown. By default it prints the stacks that
hold most.`,
	Examples: []cli.Example{
		{Line: "profile 812", Does: "sample for 30 seconds, then show the stacks whose objects are live"},
		{Line: "profile 812 --http :0", Does: "as a web page with a flame graph, on this machine only"},
		{Line: "profile 812 --pins", Does: "the code whose objects pin half-empty pages"},
		{Line: "profile 812 --cpu", Does: "the functions that spend CPU time in the allocator"},
		{Line: "profile 812 --seconds 120 -o heap.pb.gz", Does: "into a file for `granary profile view`, or pprof"},
		{Line: "profile core.812 --svg flame.svg", Does: "of a process that died while it was sampling"},
	},
	Setup: setup,
}

type options struct {
	seconds float64
	rate    string
	out     output
	kinds   map[string]*bool
	waits   func() bool // --seconds was given
}

func setup(fs *pflag.FlagSet) cli.Action {
	o := options{}
	fs.Float64Var(&o.seconds, "seconds", 30, "sample for so many `seconds`")
	fs.StringVar(&o.rate, "rate", "512KiB", "mean `distance` between samples: less is more exact, and costs more")
	o.kinds = kindFlags(fs)
	lifetime := fs.Bool("lifetime", false, "how long freed objects lived")
	cpu := fs.Bool("cpu", false, "instead, the functions that spend CPU time in the allocator")
	o.out.flags(fs)
	return cli.Arguments(1, 1, inspect.SubjectUsage, func(ctx context.Context, env cli.Env, args []string) error {
		o.waits = func() bool { return fs.Changed("seconds") }
		if *cpu {
			if err := errors.Join(o.check(), o.out.check()); err != nil {
				return err
			}
			return o.cpu(ctx, env, args[0])
		}
		return o.run(ctx, env, args[0], *lifetime)
	})
}

// kindFlags declares a flag for each kind of heap profile.
func kindFlags(fs *pflag.FlagSet) map[string]*bool {
	kinds := map[string]*bool{}
	for _, k := range Kinds {
		kinds[k.Name] = fs.Bool(k.Name, false, "by "+k.Says)
	}
	return kinds
}

// chosen returns the kind that the flags select, or the first kind without a flag.
func chosen(kinds map[string]*bool) (Kind, bool, error) {
	var found []Kind
	for _, k := range Kinds {
		if *kinds[k.Name] {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return Kinds[0], false, nil
	case 1:
		return found[0], true, nil
	}
	return Kind{}, false, cli.Usagef("choose one of --%s and --%s", found[0].Name, found[1].Name)
}

// Rate reads a distance between samples.
func Rate(text string) (uint64, error) {
	rate, err := humanize.ParseBytes(text)
	if err != nil || rate < 1 || rate > 1<<40 {
		return 0, cli.Usagef("--rate %q is no distance in bytes: give one like 512KiB or 64KiB", text)
	}
	return rate, nil
}

func (o options) check() error {
	if o.seconds <= 0 || o.seconds > 7*86400 {
		return cli.Usagef("--seconds must be above zero, and a week at most")
	}
	return nil
}

func (o options) run(ctx context.Context, env cli.Env, arg string, lifetime bool) (err error) {
	rate, err := Rate(o.rate)
	if err != nil {
		return err
	}
	kind, _, err := chosen(o.kinds)
	if err != nil {
		return err
	}
	if err := errors.Join(o.check(), o.out.check()); err != nil {
		return err
	}
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f := finder(env, s) // while the process is there
	h, err := o.collect(ctx, env.Stderr, s, rate)
	if err != nil {
		return err
	}
	built, outcome := h.Named(ctx, f)
	if lifetime {
		width, _ := term.Width(env.Stdout)
		fmt.Fprintln(env.Stdout, h.Headline())
		WriteLifetimes(env.Stdout, h, built, o.out.limit, width)
		return nil
	}
	return o.out.write(ctx, env, built.Profile, kind, append(h.Words(), outcome.Missing...))
}

// collect samples for the requested duration.
func (o options) collect(ctx context.Context, progress io.Writer, s *inspect.Subject, rate uint64) (h Heap, err error) {
	session, err := Start(ctx, s, rate)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, session.Stop()) }()
	if session.WasOn() && (!o.waits() || s.PID == 0) {
		return session.Read(true)
	}
	wait := time.Duration(o.seconds * float64(time.Second))
	if _, terminal := term.Width(progress); terminal {
		fmt.Fprintf(progress, "sampling for %v; Ctrl-C ends it and prints the result\n", wait)
	}
	return session.Follow(ctx, wait)
}

// sleep waits for d, or until ctx is done; it is false if the process ends before.
func sleep(ctx context.Context, pid int, d time.Duration) bool {
	end := time.After(d)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-end:
			return true
		case <-tick.C:
			if !procfs.Live().Alive(pid) {
				return false
			}
		}
	}
}

func finder(env cli.Env, s *inspect.Subject) *symbol.Finder {
	f := symbol.NewFinder(env.Getenv)
	if s.PID != 0 {
		f.OfProcess(procfs.Live(), s.PID)
	}
	return f
}

// Headline names the subject of the profile.
func (h Heap) Headline() string {
	return fmt.Sprintf("%s: %s samples in %v, one in %s", h.Title, term.Count(h.Samples.Taken), h.Samples.For.Round(100*time.Millisecond), term.Bytes(h.Samples.Rate))
}

// Words returns the lines above the table of a profile.
func (h Heap) Words() []string {
	words := []string{h.Headline()}
	if h.Ended > 0 {
		words = append(words, fmt.Sprintf("the process ended while it was sampled: the last reading was %v before its end; `granary leaks -- COMMAND` reports at the end of a program", h.Ended.Round(10*time.Millisecond)))
	}
	if lost := h.Samples.Lost; lost.Total() > 0 {
		words = append(words, fmt.Sprintf("%s samples are missing: %s for lack of room, %s during another sample, %s before a cache was ready",
			term.Count(lost.Total()), term.Count(lost.Stacks+lost.Samples), term.Count(lost.Reentered), term.Count(lost.Late)))
	}
	if e := h.Samples.Ends; e.Early+e.Cut+e.Guessed > 0 {
		words = append(words, fmt.Sprintf("of %s stacks %s end early, at code without unwind tables; %s are cut, because they are longer than the limit; %s were unwound in part by frame pointers alone",
			term.Count(h.Samples.Taken), term.Count(e.Early), term.Count(e.Cut), term.Count(e.Guessed)))
	}
	if h.Pins != nil && h.Pins.Pages > 0 {
		words = append(words, fmt.Sprintf("live objects pin %s pages and leave %s of them unused", term.Count(h.Pins.Pages), term.Bytes(h.Pins.Total)))
	}
	if h.Arenas.Bytes > 0 {
		words = append(words, fmt.Sprintf("%s are in scoped heaps and arenas (%s), which are not sampled: granary_heap_measure gives the program the size of each", term.Bytes(h.Arenas.Bytes), term.Count(h.Arenas.Count)))
	}
	return words
}
