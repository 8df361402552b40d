// Package cold is the command `granary cold`: it finds live memory that a process does not access.
package cold

import (
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary cold`.
var Command = cli.Command{
	Name: "cold", Usage: "PID|NAME [options]", Takes: cli.PIDs,
	Summary: "find live memory that a process did not access, by age, by size class and by stack",
	About: `Watches the process in intervals. At the end of each it reads which pages of the heap were accessed, and
assigns the live objects on them to an age. Live memory on a page is as old as the page: one accessed object makes
its neighbours appear accessed. While sampling is on (granary profile PID), stacks are listed as well. Needs root
and idle page tracking, or, on x86-64, BPF; the first line names the source, the last one the cost. Of scoped heaps and
arenas all pages are listed, as their objects are not known. granary ctl PID pageout moves cold memory to swap.`,
	Examples: []cli.Example{
		{Line: "cold 812", Does: "watch for 30 seconds"},
		{Line: "cold redis-server --seconds 600", Does: "find memory without an access for ten minutes"},
		{Line: "cold 812 --json | jq .classes", Does: "for a script"},
	},
	Setup: setup,
}

type options struct {
	seconds   float64
	intervals int
	limit     int
	json      bool
}

func setup(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.Float64Var(&o.seconds, "seconds", 30, "watch for so many `seconds`")
	fs.IntVar(&o.intervals, "intervals", 8, "divide the watch into this `number` of intervals, 1 to 200: more intervals give more exact ages, and cost more")
	fs.IntVar(&o.limit, "limit", 10, "list at most this `number` of classes, and of stacks; 0: all")
	fs.BoolVar(&o.json, "json", false, "print JSON; sizes are bytes")
	return cli.Arguments(1, 1, "the PID or the name of a process", func(ctx context.Context, env cli.Env, args []string) error {
		switch {
		case !(o.seconds >= 0.1 && o.seconds <= 30*86400):
			return cli.Usagef("--seconds must be 0.1 to 2592000 (30 days)")
		case o.intervals < 1 || o.intervals > maxIntervals:
			return cli.Usagef("--intervals must be 1 to %d", maxIntervals)
		}
		report, err := o.report(ctx, env, args[0], realClock{time.Now()})
		if err != nil {
			return err
		}
		if o.json {
			return term.JSON(env.Stdout, report)
		}
		width, _ := term.Width(env.Stdout)
		report.write(env.Stdout, width, o.limit)
		return nil
	})
}

func (o options) report(ctx context.Context, env cli.Env, name string, clock clock) (r Report, err error) {
	proc := procfs.Live()
	if inspect.IsCore(name) {
		return r, cli.Usagef("a core file does not record accesses: give the PID or the name of a process")
	}
	s, err := inspect.OpenSubject(proc, name)
	if err != nil {
		return r, err
	}
	pid := s.PID
	defer func() { err = errors.Join(err, s.Close()) }()
	heap, err := s.HeapMap()
	if err != nil {
		return r, err
	}
	source, err := Open(proc, pid)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	w := &watch{
		source: source, ranges: rangesOf(heap), page: uint64(os.Getpagesize()),
		length: time.Duration(o.seconds * float64(time.Second)), intervals: o.intervals, clock: clock,
	}
	ages, err := w.run(ctx)
	if err != nil {
		return r, proc.Explain(pid, err)
	}
	if heap, err = s.HeapMap(); err != nil {
		return r, err
	}
	t := newTally(heap, ages)
	r = t.report(s.Title, source.Name(), w.cost)
	r.Asked = o.seconds
	if r.Swap, r.Huge, err = kernelFigures(proc, pid); err != nil {
		return r, proc.Explain(pid, err)
	}
	r.Stacks, r.Sampling, err = stacksOf(ctx, env, s, t)
	return r, err
}

// kernelFigures are the kernel's figures of the whole process: bytes in swap, and in huge pages.
func kernelFigures(proc procfs.FS, pid int) (swap, huge uint64, err error) {
	regions, err := proc.Smaps(pid)
	for _, r := range regions {
		swap += r.Swap
		huge += r.AnonHugePages
	}
	return swap, huge, err
}

// stacksOf is false where no samples were taken.
func stacksOf(ctx context.Context, env cli.Env, s *inspect.Subject, t *tally) ([]Stack, bool, error) {
	if !s.CanSample() {
		return nil, false, nil
	}
	samples, err := s.Samples()
	if err != nil || len(samples.Live) == 0 {
		return nil, false, err
	}
	modules, err := s.Modules()
	if err != nil {
		return nil, false, err
	}
	f := symbol.NewFinder(env.Getenv)
	f.OfProcess(procfs.Live(), s.PID)
	b, _ := profile.Heap{Title: s.Title, Library: s.Library, Samples: samples, Modules: modules}.Named(ctx, f) // addresses will do
	names := make([][]string, len(b.Stacks))
	for i, stack := range b.Stacks {
		names[i] = profile.NamesOf(stack)
	}
	return t.stacks(samples, names), true, nil
}

func (t *tally) report(title, source string, cost Cost) Report {
	r := Report{Title: title, Source: source, Seconds: seconds(t.ages.Length()), Intervals: len(t.ages.ends)}
	r.Cost.ReadingSeconds, r.Cost.ForgettingSeconds, r.Cost.LongestSeconds = seconds(cost.Reading), seconds(cost.Forgetting), seconds(cost.Longest)
	for _, limit := range t.limits {
		r.Ages = append(r.Ages, Age{Seconds: seconds(limit)})
	}
	r.Classes = t.classes()
	for _, class := range r.Classes {
		r.Live += class.Live
		r.InMemory += class.InMemory
		for i := range r.Ages {
			r.Ages[i].Bytes += class.ByAge[i]
		}
	}
	r.Arenas = t.arenas()
	r.ColdPages = t.cold
	return r
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
