package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Commands are the commands that read results and measure nothing.
var Commands = []cli.Command{
	{
		Name: "bench compare", Usage: "A B [options]", Summary: "compare two results, such as of two versions or two days",
		About: "A and B are folders written with --out, or results.json files. Shown are the rows and allocators that both have, B to A; " +
			"≈ says that no difference is shown. compare compares profiles, trace diff traces.",
		Examples: []cli.Example{{Line: "bench compare results/before results/after", Does: "what a change did"}},
		Exits:    cli.Exits("fine", "with --fail: something became worse; or it failed"),
		Takes:    cli.Files, Setup: compareSetup,
	},
	{
		Name: "bench report", Usage: "DIR [options]", Summary: "write the report of existing results again, for another goal",
		About:    "DIR is a folder written with --out; of one that holds several scenarios, all reports and their summary are written.",
		Examples: []cli.Example{{Line: "bench report results --goal p99", Does: "put the advice for the shortest tail first"}},
		Takes:    cli.Files, Setup: reportSetup,
	},
}

func reportSetup(fs *pflag.FlagSet) cli.Action {
	name := fs.String("goal", "rss", "the `goal` whose advice comes first: rss, throughput, p99 or cpu")
	service := fs.String("service", "", "the `name` of the service in the lines that deploy the allocator")
	return cli.Arguments(1, 1, "the folder of the results", func(_ context.Context, env cli.Env, args []string) error {
		goal, err := Find(*name)
		if err != nil {
			return cli.Usagef("--goal: %w", err)
		}
		if many, err := result.ReadRaw(args[0]); err == nil && len(many) > 0 {
			return again(env, args[0], goal)
		}
		r, err := result.Read(args[0])
		if err != nil {
			return err
		}
		if strings.HasSuffix(args[0], ".json") {
			args[0] = filepath.Dir(args[0])
		}
		if err := WriteFolder(args[0], r, goal, Markdown(r, goal)); err != nil {
			return err
		}
		Advise(env.Stdout, r, goal, *service)
		_, err = fmt.Fprintf(env.Stdout, "The report is %s\n", filepath.Join(args[0], "report.html"))
		return err
	})
}

// again writes the reports of a folder of several scenarios, and their summary.
func again(env cli.Env, dir string, goal Goal) error {
	paths, err := result.Files(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		r, err := result.Read(path)
		if err == nil {
			err = WriteFolder(filepath.Dir(path), r, goal, Markdown(r, goal))
		}
		if err != nil {
			return err
		}
	}
	if err := Summarise(dir, env.Stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "The summary is %s\n", filepath.Join(dir, Summary))
	return err
}

// against chooses the reference of the ratios: results of programs are compared with the best peer.
func against(r *result.Results) Against {
	if ofPrograms(r) {
		return BestPeer
	}
	return BestOfAll
}

// Print prints results on a terminal: every row, the advice for a goal, and the remarks.
func Print(out io.Writer, r *result.Results, goal Goal) {
	if len(r.Observations) > 0 {
		who := fmt.Sprintf("%d allocators", len(r.Allocators))
		if len(r.Allocators) == 1 {
			who = r.Allocators[0].Name
		}
		width, _ := term.Width(out)
		for _, t := range Tables(fmt.Sprintf("%s under %s: medians of %s, %.0f s", r.Scenario, who, term.Counted(r.Rounds, "round"), r.Seconds), r, against(r)) {
			t.Terminal(out, width)
		}
		term.Line(out, "%s", strings.ReplaceAll(strings.TrimSpace(Legend(against(r))), "\n", " "))
		Advise(out, r, goal, "")
	}
	Remarks(out, r)
}

// Markdown is the report as Markdown.
func Markdown(r *result.Results, goal Goal) []byte {
	var page bytes.Buffer
	against := against(r)
	Document(&page, r, Tables("Medians", r, against), against)
	fmt.Fprintln(&page)
	Advise(&page, r, goal, "")
	return page.Bytes()
}

// Advise prints the advice for a goal, and if a service is named, the lines that deploy the best allocator
// there.
func Advise(out io.Writer, r *result.Results, goal Goal, service string) {
	verdict, ok := Judge(r, goal)
	if !ok || len(r.Allocators) < 2 {
		return
	}
	fmt.Fprintln(out)
	for _, line := range verdict.Text() {
		term.Line(out, "%s", line)
	}
	fmt.Fprintln(out)
	if service == "" {
		return
	}
	for _, recipe := range Deploy(verdict.Standings[0].Allocator, service) {
		fmt.Fprintf(out, "%s:\n%s\n\n", recipe.Where, recipe.Lines)
	}
}

func compareSetup(fs *pflag.FlagSet) cli.Action {
	all := fs.Bool("all", false, "also the rows in which no difference is shown")
	fail := fs.Bool("fail", false, "end with code 1 when something became worse")
	only := fs.String("allocator", "", "only this allocator, by `name`")
	return cli.Arguments(2, 2, "two results, files or folders: before, then after", func(_ context.Context, env cli.Env, args []string) error {
		a, err := result.Read(args[0])
		if err != nil {
			return err
		}
		b, err := result.Read(args[1])
		if err != nil {
			return err
		}
		if a.Scenario != b.Scenario {
			return fmt.Errorf("%s holds results of %s, %s of %s; compare two of the same scenario", args[0], a.Scenario, args[1], b.Scenario)
		}
		changes := Changes(a, b, *only)
		width, _ := term.Width(env.Stdout)
		table, worse := tableOf(changes, *all)
		table.Terminal(env.Stdout, width)
		same := 0
		for _, c := range changes {
			if !c.Differs() {
				same++
			}
		}
		fmt.Fprintf(env.Stdout, "%d rows compared; %d show no difference, %d became worse.\n", len(changes), same, worse)
		if *fail && worse > 0 {
			return &cli.ExitError{Code: cli.CodeFailed}
		}
		return nil
	})
}

// A Change compares one row of one allocator in the results A and B. Its ratio is above 1 if B is worse.
type Change struct {
	result.Comparison
	Row       result.Row
	Allocator string
	A, B      float64 // medians
}

// Changes compares the common rows of two results, the largest change first.
func Changes(a, b *result.Results, only string) []Change {
	var out []Change
	for _, row := range a.Rows {
		if row.Better == result.Neutral {
			continue
		}
		for _, c := range a.Allocators {
			x, y := list(a.Values(c.Name, row.Key())), list(b.Values(c.Name, row.Key()))
			if len(x) == 0 || len(y) == 0 || only != "" && c.Name != only {
				continue
			}
			change := Change{Row: row, Allocator: c.Name, A: result.Median(x), B: result.Median(y)}
			if row.Better == result.Higher {
				change.Comparison = result.CompareApart(x, y)
			} else {
				change.Comparison = result.CompareApart(y, x)
			}
			out = append(out, change)
		}
	}
	slices.SortStableFunc(out, func(p, q Change) int {
		switch {
		case p.Differs() != q.Differs():
			if p.Differs() {
				return -1
			}
			return 1
		case p.Ratio > q.Ratio:
			return -1
		case p.Ratio < q.Ratio:
			return 1
		}
		return 0
	})
	return out
}

func list(values map[int]float64) []float64 {
	var out []float64
	for _, v := range values {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

func tableOf(changes []Change, all bool) (Table, int) {
	t := Table{Title: "B to A, the worst first", Header: []string{"row", "allocator", "A", "B", "B is", "98 % interval"}}
	worse := 0
	for _, c := range changes {
		if c.Differs() && c.Ratio > 1 {
			worse++
		}
		if !c.Differs() && !all {
			continue
		}
		t.Rows = append(t.Rows, []string{
			strings.TrimSuffix(c.Row.Phase+": "+c.Row.Metric+", "+Unit(c.Row.Unit), ", "), c.Allocator,
			Number(c.A, c.Row.Unit), Number(c.B, c.Row.Unit), verdictOf(c), interval(c),
		})
	}
	return t, worse
}

func verdictOf(c Change) string {
	switch {
	case !c.Differs():
		return "≈"
	case c.Ratio > 1:
		return fmt.Sprintf("%.1f %% worse", (c.Ratio-1)*100)
	}
	return fmt.Sprintf("%.1f %% better", (1-c.Ratio)*100)
}

func interval(c Change) string {
	if c.Rounds < 2 {
		return "one round"
	}
	if unbounded(c.Interval) {
		return "too few rounds"
	}
	return fmt.Sprintf("%+.1f to %+.1f %%", (c.Interval.Low-1)*100, (c.Interval.High-1)*100)
}
