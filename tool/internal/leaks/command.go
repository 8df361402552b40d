package leaks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary leaks`.
var Command = cli.Command{
	Name: "leaks", Usage: "PID|NAME [options] | [options] -- CMD [ARG...]", Takes: cli.PIDs,
	Summary: "find what a running program allocates and never frees, or what a command leaves behind",
	About: `It samples a process and reads its samples at intervals. It lists the stacks whose memory in use grows
and whose oldest allocations stay, each with its growth, the lower bound of the growth at 99 % confidence, and
the share that is old. A cache that still fills, or objects that live for much of the watch, give the same
result: watch longer. A command is run under Granary, and the memory that it did not free is listed by stack.
It does not tell whether the program can still reach a block: LeakSanitizer does.`,
	Examples: []cli.Example{
		{Line: "leaks 812", Does: "two minutes, then the stacks that grow, the most certain first"},
		{Line: "leaks 812 --for 30m", Does: "what grows slowly"},
		{Line: "leaks -- ./server --once", Does: "what is not freed when the program ends"},
	},
	Setup: setup,
}

type options struct {
	length time.Duration
	rate   string
	limit  int
	json   bool
	lib    string
}

func setup(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.DurationVar(&o.length, "for", 2*time.Minute, "how long to watch (`duration`)")
	fs.StringVar(&o.rate, "rate", "32KiB", "mean `distance` between samples: less finds slower leaks sooner, and costs more")
	fs.IntVar(&o.limit, "limit", 10, "list at most this `number` of stacks; 0: all")
	fs.BoolVar(&o.json, "json", false, "print JSON; sizes are bytes")
	fs.StringVar(&o.lib, "lib", "", "for a command, the `library` to preload (default: as granary run)")
	return func(ctx context.Context, env cli.Env, args []string) error {
		rate, err := profile.Rate(o.rate)
		switch {
		case err != nil:
			return err
		case len(args) == 0:
			return cli.Usagef("give the PID or the name of a process, or -- and a command")
		case fs.ArgsLenAtDash() == 0:
			return o.command(ctx, env, rate, args)
		case len(args) > 1:
			return cli.Usagef("%q is one argument too many: give one PID, or -- before a command", args[1])
		case o.length < 3*time.Second:
			return cli.Usagef("--for must be 3s or more")
		}
		if _, err := inspect.FindProcess(procfs.Live(), args[0]); err != nil {
			return err
		}
		return o.watch(ctx, env, rate, args[0])
	}
}

// readings is how often a process is read in all.
const readings = 24

// A Report is the output of --json.
type Report struct {
	Title    string        `json:"title"`
	Seconds  float64       `json:"seconds"`
	Readings int           `json:"readings"`
	Rate     uint64        `json:"rate_bytes"`
	OldAge   float64       `json:"old_seconds"`
	Ended    bool          `json:"process_ended,omitempty"` // before the watch was over
	Stacks   []ReportStack `json:"stacks"`
}

// A ReportStack is a Suspect with names.
type ReportStack struct {
	PerMinute  float64  `json:"bytes_per_minute"`
	AtLeast    float64  `json:"at_least_bytes_per_minute"`
	Confidence float64  `json:"confidence"`
	InUse      float64  `json:"in_use_bytes"`
	Old        float64  `json:"old_bytes"`
	Stack      []string `json:"stack"`
}

func (o options) watch(ctx context.Context, env cli.Env, rate uint64, arg string) (err error) {
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	session, err := profile.Start(ctx, s, rate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Stop()) }()
	if _, terminal := term.Width(env.Stderr); terminal {
		fmt.Fprintf(env.Stderr, "watching for %v; Ctrl-C ends it and prints the result\n", o.length)
	}
	var w Watch
	begin := time.Now()
	f := symbol.NewFinder(env.Getenv)
	f.OfProcess(procfs.Live(), s.PID) // while the process is there
	h, err := w.Follow(ctx, session, o.length)
	if err != nil {
		return err
	}
	built, _ := h.Named(ctx, f) // a function without a name is shown as an address
	r := Report{Title: s.Title, Ended: h.Ended > 0, Seconds: time.Since(begin).Seconds(), Readings: w.Readings(), Rate: session.Rate,
		OldAge: w.OldAge().Seconds(), Stacks: []ReportStack{}}
	suspects := w.Suspects()
	if r.Ended && len(suspects) == 0 {
		suspects = w.Holders()
	}
	for _, x := range suspects {
		r.Stacks = append(r.Stacks, ReportStack{x.PerMinute, x.AtLeast, x.Confidence, x.InUse, x.Old, profile.NamesOf(built.Stacks[x.Stack])})
	}
	if o.limit > 0 && len(r.Stacks) > o.limit {
		r.Stacks = r.Stacks[:o.limit]
	}
	if o.json {
		return term.JSON(env.Stdout, r)
	}
	r.write(env)
	return nil
}

// Follow reads the process until `length` is over or ctx is done, and returns the last reading. A process that ends
// before has left those that were taken.
func (w *Watch) Follow(ctx context.Context, session *profile.Session, length time.Duration) (h profile.Heap, err error) {
	ticker := time.NewTicker(min(length/readings, time.Second))
	defer ticker.Stop()
	end := time.Now().Add(length)
	next := time.Now()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ticker.C:
			done = !time.Now().Before(end)
		}
		if !done && time.Now().Before(next) {
			if !procfs.Live().Alive(session.Subject.PID) {
				return ended(session, h)
			}
			continue
		}
		next = time.Now().Add(length / readings)
		now, err := session.Read(false)
		switch {
		case err == nil:
			h = now
			w.Add(h.Samples)
		case errors.Is(err, inspect.ErrGone) || !procfs.Live().Alive(session.Subject.PID):
			return ended(session, h)
		default:
			return h, err
		}
	}
	return h, nil
}

// ended is the last reading of a process that has ended.
func ended(session *profile.Session, last profile.Heap) (profile.Heap, error) {
	if last.Samples == nil {
		return last, fmt.Errorf("process %d ended before it could be read: `granary leaks -- COMMAND` reports at the end of a program", session.Subject.PID)
	}
	last.Ended = max(time.Millisecond, time.Since(last.Taken))
	return last, nil
}

func (r Report) write(env cli.Env) {
	out := env.Stdout
	term.Line(out, "%s: watched for %.0f s, %s, one sample in %s", r.Title, r.Seconds, term.Some(r.Readings, "reading"), term.Bytes(r.Rate))
	if r.Ended {
		term.Line(out, "The process ended while it was watched; `granary leaks -- COMMAND` reports at the end of a program.")
	}
	if r.Readings < fewestReadings {
		r.writeShort(out)
		return
	}
	sure := 0
	t := term.Table{Header: []string{" GROWS BY/MIN", " AT LEAST", " CONFIDENCE", " IN USE", fmt.Sprintf(" OLDER THAN %.0f S", r.OldAge), "STACK (innermost first)"},
		Spare: []int{4, 2}, Fold: true}
	for _, s := range r.Stacks {
		least := "-"
		if s.AtLeast > 0 {
			sure++
			least = term.Bytes(uint64(s.AtLeast))
		}
		t.Rows = append(t.Rows, []string{term.Bytes(uint64(s.PerMinute)), least, confidence(s.Confidence),
			term.Bytes(uint64(s.InUse)), term.Percent(s.Old, s.InUse), profile.Chain(s.Stack, 8)})
	}
	switch {
	case len(t.Rows) == 0:
		fmt.Fprintln(out, "No stack grows.")
		return
	case sure == 0:
		fmt.Fprintln(out, "No stack grows with 99 % confidence; these may grow:")
	default:
		grow := "stacks grow"
		if sure == 1 {
			grow = "stack grows"
		}
		term.Line(out, "%d %s with 99 %% confidence (a cache that still fills gives the same result):", sure, grow)
	}
	width, _ := term.Width(out)
	t.Write(out, width)
}

// fewestReadings is how many growth is judged by.
const fewestReadings = 6

// writeShort is the report of a watch that was too short to judge growth: the live bytes at its end.
func (r Report) writeShort(out io.Writer) {
	if !r.Ended || len(r.Stacks) == 0 {
		fmt.Fprintln(out, "That was too short to judge growth: watch longer with --for.")
		return
	}
	fmt.Fprintln(out, "That was too short to judge growth. The stacks with most bytes in use at the last reading:")
	t := term.Table{Header: []string{" IN USE", "STACK (innermost first)"}, Fold: true}
	for _, s := range r.Stacks {
		t.Rows = append(t.Rows, []string{term.Bytes(uint64(s.InUse)), profile.Chain(s.Stack, 8)})
	}
	width, _ := term.Width(out)
	t.Write(out, width)
}

// confidence never claims to be certain.
func confidence(p float64) string {
	if p > 0.999 {
		return "> 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*p)
}
