package profile

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/google/pprof/profile"
	"github.com/spf13/pflag"
)

// Compare is the command `granary compare`.
var Compare = cli.Command{
	Name: "compare", Usage: "BEFORE AFTER [options]", Takes: cli.Files,
	Summary: "show what grew from one build of a program to the next",
	About: `BEFORE and AFTER are profiles of two builds, as Pyroscope, Parca or this command write them. Several profiles
of one build are separated by commas and added up. As each may be of any number of processes and of any time, the
command compares the share of a function in its build: +2 points are 2 of 100 bytes more. Functions are matched by
name, since addresses differ between builds. profile diff subtracts two profiles of one process, bench compare
compares measurements, trace diff compares traces.`,
	Examples: []cli.Example{
		{Line: "compare v1.pb.gz v2.pb.gz", Does: "the functions whose share of the memory in use grew most, first"},
		{Line: "compare a1.pb.gz,a2.pb.gz b1.pb.gz,b2.pb.gz --alloc", Does: "of what is allocated, from two hosts each"},
		{Line: "compare v1.pb.gz v2.pb.gz --stacks --absolute", Does: "whole stacks, in bytes"},
	},
	Setup: setupCompare,
}

type compareOptions struct {
	stacks, absolute, json bool
	limit                  int
}

func setupCompare(fs *pflag.FlagSet) cli.Action {
	var o compareOptions
	kinds := kindFlags(fs)
	fs.BoolVar(&o.stacks, "stacks", false, "compare whole stacks instead of the functions that allocate")
	fs.BoolVar(&o.absolute, "absolute", false, "compare sums instead of shares: only if both are of as many processes and as much time")
	fs.IntVar(&o.limit, "limit", 20, "print at most this `number` of rows; 0: all")
	fs.BoolVar(&o.json, "json", false, "print JSON; shares are of 1")
	return cli.Arguments(2, 2, "the profiles of two builds: the earlier, then the later", func(ctx context.Context, env cli.Env, args []string) error {
		kind, explicit, err := chosen(kinds)
		if err != nil {
			return err
		}
		before, _, err := load(ctx, env, strings.Split(args[0], ","))
		if err != nil {
			return err
		}
		after, _, err := load(ctx, env, strings.Split(args[1], ","))
		if err != nil {
			return err
		}
		value, err := commonKind(before, after, kind, explicit)
		if err != nil {
			return err
		}
		c := compareBuilds(before, after, value, o.stacks)
		if c.Before <= 0 || c.After <= 0 {
			return fmt.Errorf("one of the profiles holds no %s: choose another kind, as with --alloc, or profile for longer", value)
		}
		c.sort(o.absolute)
		if o.json {
			return term.JSON(env.Stdout, c)
		}
		o.print(env.Stdout, c)
		return nil
	})
}

// commonKind is the kind of value that both profiles have: the one that was chosen, or the default of the later one.
func commonKind(before, after *profile.Profile, kind Kind, explicit bool) (string, error) {
	name := kind.Type
	if !explicit && (Index(before, name) < 0 || Index(after, name) < 0) {
		name = after.SampleType[DefaultIndex(after)].Type
	}
	for _, p := range []*profile.Profile{before, after} {
		if Index(p, name) >= 0 {
			continue
		}
		var had []string
		for _, t := range p.SampleType {
			had = append(had, t.Type)
		}
		which := map[bool]string{true: "earlier", false: "later"}[p == before]
		return "", fmt.Errorf("the %s profile has no %s but %s: fetch one kind for both builds", which, name, list(had))
	}
	if a, b := before.SampleType[Index(before, name)].Unit, after.SampleType[Index(after, name)].Unit; a != b {
		return "", fmt.Errorf("%s is counted in %s in the earlier profile and in %s in the later one: fetch one kind for both builds", name, a, b)
	}
	return name, nil
}

// A Comparison is what became of the functions or the stacks of a program.
type Comparison struct {
	Kind   string  `json:"kind"`
	Unit   string  `json:"unit"`
	Before int64   `json:"before"`
	After  int64   `json:"after"`
	Rows   []Grown `json:"rows"`
}

// A Grown is a function, or a stack with the innermost function first.
type Grown struct {
	Stack       []string `json:"stack"`
	Before      int64    `json:"before"`
	After       int64    `json:"after"`
	BeforeShare float64  `json:"before_share"`
	AfterShare  float64  `json:"after_share"`
}

func compareBuilds(before, after *profile.Profile, kind string, whole bool) Comparison {
	c := Comparison{Kind: kind, Unit: after.SampleType[Index(after, kind)].Unit}
	rows := map[string]*Grown{}
	add := func(p *profile.Profile, to func(*Grown) *int64, total *int64) {
		index := Index(p, kind)
		for _, s := range p.Sample {
			stack := inCommon(s, whole)
			key := strings.Join(stack, "\n")
			if rows[key] == nil {
				rows[key] = &Grown{Stack: stack}
			}
			*to(rows[key]) += s.Value[index]
			*total += s.Value[index]
		}
	}
	add(before, func(g *Grown) *int64 { return &g.Before }, &c.Before)
	add(after, func(g *Grown) *int64 { return &g.After }, &c.After)
	for _, g := range rows {
		if g.Before == 0 && g.After == 0 {
			continue
		}
		g.BeforeShare, g.AfterShare = share(g.Before, c.Before), share(g.After, c.After)
		c.Rows = append(c.Rows, *g)
	}
	return c
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// variant is what compilers add to the names of the parts and copies of a function, differently in each build.
var variant = regexp.MustCompile(`(\.(isra|constprop|part|cold|lto_priv|llvm)(\.\d+)?)+$`)

// inCommon are the names of a stack that two builds have in common: without the allocator's own entries, without
// addresses, and as written in the source.
func inCommon(s *profile.Sample, whole bool) []string {
	var names []string
	for _, l := range s.Location {
		if len(l.Line) == 0 {
			names = append(names, withoutName(l))
		}
		for _, line := range l.Line {
			if line.Function != nil {
				names = append(names, variant.ReplaceAllString(line.Function.Name, ""))
			}
		}
	}
	for len(names) > 1 && (strings.HasPrefix(names[0], "granary::") || slices.Contains(entries, names[0])) {
		names = names[1:]
	}
	if len(names) == 0 {
		names = []string{"[no stack]"}
	}
	if names[len(names)-1] == BeforeFrame {
		return names[len(names)-1:]
	}
	if !whole {
		return names[:1]
	}
	return names
}

func withoutName(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" {
		return "[no name]"
	}
	return "[no name, in " + l.Mapping.File[strings.LastIndexByte(l.Mapping.File, '/')+1:] + "]"
}

// growth is what a row is sorted by: points of its share, or the difference.
func (g Grown) growth(absolute bool) float64 {
	if absolute {
		return float64(g.After - g.Before)
	}
	return g.AfterShare - g.BeforeShare
}

// sort orders the rows by growth, the largest first, what shrank last.
func (c Comparison) sort(absolute bool) {
	slices.SortFunc(c.Rows, func(a, b Grown) int {
		return cmp.Or(cmp.Compare(b.growth(absolute), a.growth(absolute)), slices.Compare(a.Stack, b.Stack))
	})
}

// print prints the rows that grew most, and below them those that shrank most.
func (o compareOptions) print(w io.Writer, c Comparison) {
	term.Line(w, "%s: %s before, %s after. A row counts by its share in its build, unless --absolute.", c.Kind, amount(c.Before, c.Unit), amount(c.After, c.Unit))
	last := "FUNCTION that allocates"
	if o.stacks {
		last = "STACK (innermost first)"
	}
	t := term.Table{Header: []string{" GROWTH", " BEFORE", " AFTER", last}, Fold: true}
	rows, more := c.Rows, 0
	if o.limit > 0 && len(rows) > o.limit {
		rows, more = extremes(rows, o.limit, o.absolute), len(rows)-o.limit
	}
	for _, g := range rows {
		cells := []string{points(g.growth(false)), percent(g.BeforeShare), percent(g.AfterShare)}
		if o.absolute {
			cells = []string{sign(g.After-g.Before) + amount(g.After-g.Before, c.Unit), amount(g.Before, c.Unit), amount(g.After, c.Unit)}
		}
		t.Rows = append(t.Rows, append(cells, Chain(g.Stack, frameLimit)))
	}
	width, _ := term.Width(w)
	t.Write(w, width)
	if more > 0 {
		fmt.Fprintf(w, "and %d more rows that changed less\n", more)
	}
}

// extremes are the n rows that changed most, in their order.
func extremes(rows []Grown, n int, absolute bool) []Grown {
	changed := slices.Clone(rows)
	slices.SortStableFunc(changed, func(a, b Grown) int {
		return cmp.Compare(math.Abs(b.growth(absolute)), math.Abs(a.growth(absolute)))
	})
	Comparison{Rows: changed[:n]}.sort(absolute)
	return changed[:n]
}

func sign(n int64) string {
	if n > 0 {
		return "+"
	}
	return ""
}

func points(share float64) string { return fmt.Sprintf("%+.1f points", 100*share) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
