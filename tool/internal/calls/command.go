package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary calls`.
var Command = cli.Command{
	Name: "calls", Usage: "PID|NAME [options]", Takes: cli.PIDs,
	Summary: "trace every allocation call of a running process for a while",
	About: `It prints a histogram of the requested sizes, how long freed objects lived, what each thread did, and the stacks that
call most. The library records each call with its stack only while the command runs; the output compares the CPU time of a call
with the second before. Ctrl-C ends the trace and prints what there is.`,
	Examples: []cli.Example{
		{Line: "calls 812", Does: "every call of five seconds"},
		{Line: "calls redis-server --seconds 1 --limit 5", Does: "a short trace, and the five hottest stacks"},
		{Line: "calls 812 --json", Does: "all of it, for a program"},
	},
	Setup: setup,
}

func setup(fs *pflag.FlagSet) cli.Action {
	seconds := fs.Float64("seconds", 5, "trace for so many `seconds`")
	limit := fs.Int("limit", 10, "print at most this `number` of threads and of stacks; 0: all")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Arguments(1, 1, "the PID or the name of a process", func(ctx context.Context, env cli.Env, args []string) error {
		if *seconds <= 0 || *seconds > 3600 {
			return cli.Usagef("--seconds must be above zero, and an hour at most")
		}
		t, err := trace(ctx, env, args[0], time.Duration(*seconds*float64(time.Second)))
		if err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(env.Stdout, t)
		}
		width, _ := term.Width(env.Stdout)
		t.Write(env.Stdout, width, *limit)
		return nil
	})
}

func trace(ctx context.Context, env cli.Env, arg string, wait time.Duration) (t *Trace, err error) {
	if strings.Contains(arg, "/") || inspect.IsCore(arg) {
		return nil, cli.Usagef("%s names a file, which makes no calls: give a running process by its PID or name", arg)
	}
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, terminal := term.Width(env.Stderr); terminal {
		fmt.Fprintf(env.Stderr, "tracing for %v; ctrl-c ends it early\n", wait)
	}
	f := symbol.NewFinder(env.Getenv)
	f.FunctionsOnly = true
	f.OfProcess(procfs.Live(), s.PID)
	return Take(ctx, s, f, wait)
}

// Write prints the trace, at most limit threads and stacks; 0 is all.
func (t *Trace) Write(w io.Writer, width, limit int) {
	for _, line := range t.words() {
		fmt.Fprintln(w, term.Wrap("", line, term.TextWidth(w)))
	}
	t.ranges(w, width, "REQUESTED", t.Sizes, t.Allocations, term.Bytes)
	t.ranges(w, width, "LIVED", t.Lifetimes, t.Freed, duration)
	t.threads(w, width, limit)
	t.stacks(w, width, limit)
}

// words are the lines above the tables.
func (t *Trace) words() []string {
	out := []string{fmt.Sprintf("%s: %s in %.1f s, %s; %s of these objects were freed",
		t.Title, counted(t.Allocations, "allocation"), t.Seconds, term.Bytes(t.Bytes), term.Count(t.Freed))}
	if t.Ended {
		out = append(out, "the process ended while it was traced: its last calls are missing")
	}
	if t.Lost > 0 {
		out = append(out, counted(t.Lost, "call")+" had no room in the table: their sizes and threads are included, their lifetimes and stacks are missing")
	}
	return append(out, t.Cost.words())
}

func counted(n uint64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return term.Count(n) + " " + one + "s"
}

func duration(ms uint64) string {
	if ms < 1024 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%.0f s", float64(ms)/1000)
}

// telling is the least CPU time, in seconds, from which the cost of a call is computed.
const telling = 0.02

// words states the cost of tracing.
func (c Cost) words() string {
	a, b := c.Traced, c.Before
	rates := fmt.Sprintf("calls a second: %s while traced, %s in the %.1f s before", a.rate(), b.rate(), b.Seconds)
	switch {
	case a.Seconds == 0:
		return "cost: unknown, as the process ended"
	case a.CPUSeconds < telling || b.CPUSeconds < telling || a.Calls == 0 || b.Calls == 0:
		return "cost: too little CPU time to tell; " + rates
	}
	return fmt.Sprintf("cost: the process took %.2f µs of CPU time for each call while traced, %.2f µs before; %s", a.each(), b.each(), rates)
}

func (a Activity) rate() string { return term.Count(uint64(float64(a.Calls) / max(a.Seconds, 1e-9))) }

// each is all CPU time of the process divided by its calls, in microseconds.
func (a Activity) each() float64 { return a.CPUSeconds / float64(a.Calls) * 1e6 }

// bar is the length of the longest bar of a histogram.
const bar = 30

func (t *Trace) ranges(w io.Writer, width int, title string, list []Range, all uint64, text func(uint64) string) {
	if len(list) == 0 {
		return
	}
	most := uint64(1)
	for _, r := range list {
		most = max(most, r.Calls)
	}
	table := term.Table{Header: []string{title, " CALLS", " SHARE", ""}}
	for _, r := range list {
		label := "up to " + text(r.UpTo)
		if r.UpTo == 0 {
			label = "above " + text(r.Above)
		}
		length := int((r.Calls*bar + most - 1) / most)
		table.Rows = append(table.Rows, []string{label, term.Count(r.Calls), term.Percent(float64(r.Calls), float64(all)), strings.Repeat("█", length)})
	}
	fmt.Fprintln(w)
	table.Write(w, width)
}

func (t *Trace) threads(w io.Writer, width, limit int) {
	table := term.Table{Header: []string{"THREAD", " ALLOCATIONS", " SHARE", " BYTES", " FREES"}}
	for _, thread := range term.First(t.Threads, limit) {
		name := fmt.Sprintf("%d %s", thread.ID, thread.Name)
		switch {
		case thread.ID == 0:
			name = "all others"
		case thread.Name == "":
			name = fmt.Sprintf("%d (ended)", thread.ID)
		}
		table.Rows = append(table.Rows, []string{name, term.Count(thread.Allocations), term.Percent(float64(thread.Allocations), float64(t.Allocations)),
			term.Bytes(thread.Bytes), term.Count(thread.Frees)})
	}
	finish(w, table, width, len(t.Threads), "thread")
}

// frames is how many functions of a stack are printed.
const frames = 8

func (t *Trace) stacks(w io.Writer, width, limit int) {
	table := term.Table{Header: []string{" ALLOCATIONS", " SHARE", " BYTES", " LIVE", "STACK (innermost first)"}}
	for _, s := range term.First(t.Stacks, limit) {
		table.Rows = append(table.Rows, []string{term.Count(s.Allocations), term.Percent(float64(s.Allocations), float64(t.Allocations)),
			term.Bytes(s.Bytes), term.Count(s.Live), profile.Chain(s.Functions, frames)})
	}
	finish(w, table, width, len(t.Stacks), "stack")
}

func finish(w io.Writer, table term.Table, width, all int, one string) {
	if all == 0 {
		return
	}
	fmt.Fprintln(w)
	table.Write(w, width)
	if rest := all - len(table.Rows); rest > 0 {
		fmt.Fprintf(w, "and %s more\n", term.Counted(rest, one))
	}
}
