package trace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// diff is the command `granary trace diff`.
var diff = cli.Command{
	Name: "trace diff", Usage: "BEFORE AFTER [--by peak|bytes|objects|end] [--rows N] [--json]", Summary: "compare two traces of a program", Takes: cli.Files,
	About:    "Totals first, then the sizes that changed, the largest change first. compare compares profiles, bench compare measurements.",
	Examples: []cli.Example{{Line: "trace diff before.gtr after.gtr --by objects", Does: "which sizes are allocated more often, which less"}},
	Setup:    diffSetup,
}

// A Change compares a size in two traces.
type Change struct {
	Size   uint64 `json:"size"`
	Before Group  `json:"before"`
	After  Group  `json:"after"`
}

// A Difference is what `trace diff --json` prints.
type Difference struct {
	Before Summary  `json:"before"`
	After  Summary  `json:"after"`
	Sizes  []Change `json:"sizes"`
}

// Changes are the sizes of both summaries whose figure differs, the largest difference first.
func Changes(before, after Summary, figure func(Group) uint64) []Change {
	bySize := map[uint64]*Change{}
	of := func(size uint64) *Change {
		if bySize[size] == nil {
			bySize[size] = &Change{Size: size}
		}
		return bySize[size]
	}
	for _, g := range before.BySize {
		of(g.Size).Before = g
	}
	for _, g := range after.BySize {
		of(g.Size).After = g
	}
	var out []Change
	for _, c := range bySize {
		if figure(c.Before) != figure(c.After) {
			out = append(out, *c)
		}
	}
	amount := func(c Change) uint64 {
		a, b := figure(c.Before), figure(c.After)
		return max(a, b) - min(a, b)
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Or(cmp.Compare(amount(b), amount(a)), cmp.Compare(a.Size, b.Size)) })
	return out
}

func diffSetup(fs *pflag.FlagSet) cli.Action {
	by := fs.String("by", "peak", "the `figure` to compare: peak (bytes live at the peak), bytes (requested in all), objects, end (bytes live at the end)")
	rows := fs.Int("rows", 20, "print so many `sizes`")
	asJSON := fs.Bool("json", false, "print JSON; sizes are bytes, times nanoseconds")
	return cli.Arguments(2, 2, "the files of two traces", func(_ context.Context, env cli.Env, args []string) error {
		figure, ok := orders[*by]
		if !ok {
			return cli.Usagef("--by %s is no figure: give peak, bytes, objects or end", *by)
		}
		before, err := read(env, args[0])
		if err != nil {
			return err
		}
		after, err := read(env, args[1])
		if err != nil {
			return err
		}
		if a, b := before.Header.Sample, after.Header.Sample; a != b {
			return fmt.Errorf("one trace has one object in %d, the other one in %d; record both with the same --sample", a, b)
		}
		changes := Changes(before, after, figure)
		changes = changes[:min(max(0, *rows), len(changes))]
		if *asJSON {
			before.BySize, after.BySize, before.ByStack, after.ByStack = nil, nil, nil, nil
			return term.JSON(env.Stdout, Difference{before, after, changes})
		}
		writeDiff(env.Stdout, before, after, changes, *by)
		return nil
	})
}

func writeDiff(w io.Writer, before, after Summary, changes []Change, by string) {
	bytes, count := term.Bytes, term.Count
	totals := term.Table{Header: []string{"TOTAL", " BEFORE", " AFTER", " CHANGE"}}
	for _, row := range []struct {
		name   string
		before uint64
		after  uint64
		show   func(uint64) string
	}{
		{"objects", before.Objects, after.Objects, count},
		{"requested", before.Bytes, after.Bytes, bytes},
		{"reallocs", before.Reallocs, after.Reallocs, count},
		{"freed by another thread", before.Remote, after.Remote, count},
		{"threads", uint64(before.Threads), uint64(after.Threads), count},
		{"peak live", before.Peak.Bytes, after.Peak.Bytes, bytes},
		{"live at the end", before.End.Bytes, after.End.Bytes, bytes},
	} {
		totals.Rows = append(totals.Rows, []string{row.name, row.show(row.before), row.show(row.after), change(row.before, row.after)})
	}
	totals.Write(w, width(w))
	show := bytes
	if by == "objects" {
		show = count
	}
	sizes := term.Table{Header: []string{" SIZE", " BEFORE", " AFTER", " CHANGE"}}
	for _, c := range changes {
		a, b := orders[by](c.Before), orders[by](c.After)
		sizes.Rows = append(sizes.Rows, []string{count(c.Size), show(a), show(b), change(a, b)})
	}
	fmt.Fprintf(w, "\nSizes by %s\n", by)
	sizes.Write(w, width(w))
}

// change is the difference in percent of before.
func change(before, after uint64) string {
	switch {
	case before == after:
		return "-"
	case before == 0:
		return "new"
	}
	return fmt.Sprintf("%+.1f %%", 100*(float64(after)-float64(before))/float64(before))
}
