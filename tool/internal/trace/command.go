package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Commands are those that read a trace: `granary trace info` and its neighbours.
var Commands = []cli.Command{
	{
		Name: "trace info", Usage: "FILE [--json]", Summary: "summarise a trace", Takes: cli.Files,
		About: "The trace is one that `granary record` wrote, or was still writing when it was killed.",
		Examples: []cli.Example{
			{Line: "trace info trace.gtr", Does: "calls, threads and peak"},
			{Line: "trace info trace.gtr --json", Does: "all figures, also by size"},
		},
		Setup: infoSetup,
	},
	{
		Name: "trace top", Usage: "FILE [--stacks] [--by peak|bytes|objects|end] [--rows N] [--json]", Summary: "show which sizes or stacks of a trace allocate most", Takes: cli.Files,
		Examples: []cli.Example{
			{Line: "trace top trace.gtr --by objects", Does: "the most frequent sizes first"},
			{Line: "trace top trace.gtr --stacks", Does: "the stacks with the most live bytes at the peak, of a trace with stacks"},
		},
		Setup: topSetup,
	},
	{
		Name: "trace lifetimes", Usage: "FILE [--svg PICTURE] [--json]", Summary: "show how long the objects of a trace live, by size", Takes: cli.Files,
		About: "Lifetimes are rounded up to a power of two of nanoseconds. An object that realloc moves or resizes ends, and another one begins. REMOTE are those that another thread freed.",
		Examples: []cli.Example{
			{Line: "trace lifetimes trace.gtr", Does: "half, 90 % and 99 % of the freed objects lived at most so long"},
			{Line: "trace lifetimes trace.gtr --svg lives.svg", Does: "and which share ended within which time, as curves"},
		},
		Setup: lifetimesSetup,
	},
	threads,
	bound,
	diff,
}

func infoSetup(fs *pflag.FlagSet) cli.Action {
	return printing(fs, writeInfo, func(Summary) error { return nil })
}

func lifetimesSetup(fs *pflag.FlagSet) cli.Action {
	svg := fs.String("svg", "", "draw the shares of ended objects over their lifetime into this `file`")
	return printing(fs, writeLifetimes, func(s Summary) error { return drawn(*svg, lifetimePlot(s)) })
}

// printing draws a summary, and prints it as a table or as JSON.
func printing(fs *pflag.FlagSet, write func(io.Writer, Summary), draw func(Summary) error) cli.Action {
	asJSON := fs.Bool("json", false, "print JSON; sizes are bytes, times nanoseconds")
	return summarized(func(env cli.Env, s Summary) error {
		if err := draw(s); err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(env.Stdout, s)
		}
		write(env.Stdout, s)
		return nil
	})
}

// summarized reads and summarises the trace that the argument names.
func summarized(act func(cli.Env, Summary) error) cli.Action {
	return opened(func(env cli.Env, t *Trace) error { return act(env, Summarize(t)) })
}

// opened opens the trace that the argument names for an action that reads its events. Mistakes in the trace follow on stderr.
func opened(act func(cli.Env, *Trace) error) cli.Action {
	return cli.Arguments(1, 1, "the file of a trace", func(_ context.Context, env cli.Env, args []string) error {
		t, err := Open(args[0])
		if err != nil {
			return err
		}
		defer t.Close()
		if err := act(env, t); err != nil {
			return err
		}
		complain(env, args[0], t)
		return nil
	})
}

func complain(env cli.Env, path string, t *Trace) {
	for _, damage := range t.Findings.Damage {
		fmt.Fprintf(env.Stderr, "granary: %s: %s\n", path, damage)
	}
}

// read summarises a trace, and reports mistakes in it on stderr.
func read(env cli.Env, path string) (Summary, error) {
	t, err := Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer t.Close()
	s := Summarize(t)
	complain(env, path, t)
	return s, nil
}

var orders = map[string]func(Group) uint64{
	"peak":    func(g Group) uint64 { return g.AtPeak.Bytes },
	"bytes":   func(g Group) uint64 { return g.Bytes },
	"objects": func(g Group) uint64 { return g.Objects },
	"end":     func(g Group) uint64 { return g.EndBytes },
}

func topSetup(fs *pflag.FlagSet) cli.Action {
	by := fs.String("by", "peak", "the `order`: peak (bytes live at the peak), bytes (requested in all), objects, end (bytes live at the end)")
	rows := fs.Int("rows", 20, "print so many `rows`")
	stacks := fs.Bool("stacks", false, "list the stacks of the allocations instead of the sizes")
	asJSON := fs.Bool("json", false, "print JSON; sizes are bytes, times nanoseconds")
	return summarized(func(env cli.Env, s Summary) error {
		order, ok := orders[*by]
		if !ok {
			return cli.Usagef("--by %s is no order: give peak, bytes, objects or end", *by)
		}
		groups := s.BySize
		if *stacks {
			if groups = s.ByStack; len(groups) == 0 {
				return errors.New("the trace holds no stacks: record it with `granary record --stacks`")
			}
		}
		slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(order(b), order(a)) })
		groups = groups[:min(max(0, *rows), len(groups))]
		if *asJSON {
			return term.JSON(env.Stdout, topRows(s.Header, groups))
		}
		writeTop(env.Stdout, s, groups, *stacks)
		return nil
	})
}

// A topRow is a row of `trace top --json`.
type topRow struct {
	Group
	Functions string `json:"stack,omitempty"`
}

func topRows(h Header, groups []Group) []topRow {
	rows := make([]topRow, len(groups))
	for i, g := range groups {
		rows[i].Group = g
		if g.Stack != 0 {
			rows[i].Functions = h.StackOf(g.Stack, math.MaxInt)
		}
	}
	return rows
}

func writeTop(w io.Writer, s Summary, groups []Group, stacks bool) {
	t := term.Table{Header: []string{" OBJECTS", " BYTES", " LIVE AT PEAK", " OF PEAK", " LIVE AT END"}}
	if stacks {
		t.Header, t.Fold, t.Spare = append(t.Header, "STACK"), true, []int{1, 4}
	} else {
		t.Header = append([]string{" SIZE"}, t.Header...)
	}
	for _, g := range groups {
		row := []string{term.Count(g.Objects), term.Bytes(g.Bytes), term.Bytes(g.AtPeak.Bytes),
			term.Percent(float64(g.AtPeak.Bytes), float64(s.Peak.Bytes)), term.Bytes(g.EndBytes)}
		if stacks {
			row = append(row, s.Header.StackOf(g.Stack, shownFrames))
		} else {
			row = append([]string{term.Count(g.Size)}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Write(w, width(w))
}

// shownFrames is how many functions of a stack are listed.
const shownFrames = 8

func writeInfo(w io.Writer, s Summary) {
	h := s.Header
	rows := [][]string{
		{"program", programOf(h)},
		{"allocator", allocatorOf(h)},
		{"started", h.Started.Format(time.DateTime)},
		{"recorded", term.Duration(h.Length)},
		{"objects", fmt.Sprintf("%s, %s requested", term.Count(s.Objects), term.Bytes(s.Bytes))},
		{"frees", fmt.Sprintf("%s, %s of all ended objects by another thread", term.Count(s.Frees), term.Percent(float64(s.Remote), float64(s.Frees+s.Reallocs)))},
		{"reallocs", term.Count(s.Reallocs)},
		{"threads", term.Count(uint64(s.Threads))},
		{"stacks", term.Count(uint64(len(h.Stacks)))},
		{"peak live", fmt.Sprintf("%s in %s objects, after %s", term.Bytes(s.Peak.Bytes), term.Count(s.Peak.Objects), term.Duration(s.Peak.Time))},
		{"live at the end", fmt.Sprintf("%s in %s objects", term.Bytes(s.End.Bytes), term.Count(s.End.Objects))},
		{"file", fileOf(s)},
	}
	rows = append(rows, remarks(s)...)
	term.Table{Header: []string{"", ""}, Rows: rows, Fold: true}.WriteBody(w, width(w))
}

// fileOf is the size of the trace, and of an event if it has any.
func fileOf(s Summary) string {
	size := term.Bytes(uint64(s.Header.Size))
	if s.Events == 0 {
		return size + " without an event"
	}
	return fmt.Sprintf("%s, %.2f bytes an event", size, float64(s.Header.Size)/float64(s.Events))
}

// allocatorOf names the library that served the calls, unless the trace is anonymous.
func allocatorOf(h Header) string {
	if h.Allocator == "" {
		return "unknown"
	}
	return filepath.Base(h.Allocator)
}

// programOf names the program, unless the trace is anonymous.
func programOf(h Header) string {
	if h.PID == 0 {
		return cmp.Or(h.Program, "unknown")
	}
	return fmt.Sprintf("%s (process %d)", cmp.Or(h.Program, "unknown"), h.PID)
}

// remarks are the limits of the trace, if any.
func remarks(s Summary) [][]string {
	var out [][]string
	if s.Header.Sample > 1 {
		out = append(out, []string{"sampled", fmt.Sprintf("one object in %d; multiply all figures by it", s.Header.Sample)})
	}
	if s.Header.Forked {
		out = append(out, []string{"forked", "the objects of its parent are unknown"})
	}
	if s.Header.Overwritten > 0 {
		out = append(out, []string{"the last part", "the " + term.Duration(s.Header.Overwritten) + " before were overwritten"})
	}
	if s.Header.Stopped != "" {
		out = append(out, []string{"ended early", s.Header.Stopped})
	}
	for _, count := range []struct {
		n    uint64
		what string
	}{
		{s.Header.Lost, "calls of signal handlers were not recorded"},
		{s.Findings.UnknownFrees, "frees of objects that are not in the trace"},
		{s.Findings.MissingFrees, "objects whose free is not in the trace"},
	} {
		if count.n > 0 {
			out = append(out, []string{"incomplete", term.Count(count.n) + " " + count.what})
		}
	}
	return out
}

func writeLifetimes(w io.Writer, s Summary) {
	t := term.Table{Header: []string{" UP TO", " OBJECTS", " OF BYTES", " HALF", " 90 %", " 99 %", " LIVE AT END", " REMOTE"}, Spare: []int{2, 5}}
	for _, g := range s.ByDoubled {
		t.Rows = append(t.Rows, []string{term.Bytes(g.Size), term.Count(g.Objects), term.Percent(float64(g.Bytes), float64(s.Bytes)),
			term.Duration(g.Half), term.Duration(g.NineTenth), term.Duration(g.NearlyAll), term.Count(g.AtEnd), term.Percent(float64(g.Remote), float64(g.Objects-g.AtEnd))})
	}
	t.Write(w, width(w))
}

// width is the number of columns of a terminal; 0 of anything else.
func width(w io.Writer) int {
	columns, _ := term.Width(w)
	return columns
}
