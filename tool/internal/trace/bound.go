package trace

import (
	"fmt"
	"io"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

var bound = cli.Command{
	Name: "trace bound", Usage: "FILE [--svg PICTURE] [--json]", Summary: "show how little memory an allocator could need for a trace", Takes: cli.Files,
	About: `LIVE are the requested bytes: no allocator needs less. PLACED is what they need in pages of 4 KiB if each object is put, and never moved, beside objects
that end at about the same time: no allocator knows when they will, but with luck it needs no more. The least memory of an allocator that does not move objects is
between the two. ` + "`granary replay`" + ` measures what allocators do need.`,
	Examples: []cli.Example{
		{Line: "trace bound trace.gtr", Does: "peak, mean over time and end"},
		{Line: "trace bound trace.gtr --svg memory.svg", Does: "and as curves over time"},
	},
	Setup: boundSetup,
}

// A Bound is between what memory the least RSS of a trace is, for an allocator that does not move objects.
type Bound struct {
	Live   Course `json:"live"`
	Placed Course `json:"placed"` // of the placement with the lowest mean
	// LowestPeak is the lowest peak of all placements that were tried.
	LowestPeak uint64 `json:"lowest_peak"`
}

// finenesses are those of the placements that are tried: fine ones waste less in large heaps, coarse ones in small heaps.
var finenesses = []int{-3, -1, 1, 3}

// BoundOf reads the events of t twice.
func BoundOf(t *Trace) Bound {
	deaths := deathsOf(t)
	var tried []*placement
	for _, fine := range finenesses {
		tried = append(tried, newPlacement(fine, deaths))
	}
	courses := make([]Course, len(tried))
	var b Bound
	live := uint64(0)
	for e := range t.Events() {
		if e.Ends() {
			live -= e.Old.Size
		}
		if e.Begins() {
			live += e.Size
		}
		b.Live.add(e.Time, live)
		for i, p := range tried {
			p.event(e)
			courses[i].add(e.Time, p.resident*pageBytes)
		}
	}
	b.Live.finish()
	for i := range courses {
		c := &courses[i]
		c.finish()
		if i == 0 || c.Mean < b.Placed.Mean {
			b.Placed = *c
		}
		if i == 0 || c.Peak < b.LowestPeak {
			b.LowestPeak = c.Peak
		}
	}
	return b
}

func boundSetup(fs *pflag.FlagSet) cli.Action {
	asJSON := fs.Bool("json", false, "print JSON; memory is in bytes")
	svg := fs.String("svg", "", "draw memory over time into this `file`")
	return opened(func(env cli.Env, t *Trace) error {
		b := BoundOf(t)
		if err := drawn(*svg, memoryPlot(b)); err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(env.Stdout, b)
		}
		writeBound(env.Stdout, b)
		if t.Header.Sample > 1 {
			fmt.Fprintf(env.Stdout, "\nThe trace has one object in %d: pages that they share with others are not counted.\n", t.Header.Sample)
		}
		return nil
	})
}

func writeBound(w io.Writer, b Bound) {
	row := func(name string, live, placed float64) []string {
		return []string{name, term.Bytes(uint64(live)), term.Bytes(uint64(placed)), fmt.Sprintf("%.3f", placed/max(1, live))}
	}
	term.Table{Header: []string{"", " LIVE", " PLACED", " RATIO"}, Rows: [][]string{
		row("peak", float64(b.Live.Peak), float64(b.LowestPeak)),
		row("mean over time", b.Live.Mean, b.Placed.Mean),
		row("at the end", float64(b.Live.End), float64(b.Placed.End)),
	}}.Write(w, width(w))
}
