package trace

import (
	"cmp"
	"io"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

var threads = cli.Command{
	Name: "trace threads", Usage: "FILE [--rows N] [--json]", Summary: "show which threads of a trace free objects of other threads", Takes: cli.Files,
	About:    "Threads are numbered in the order of their first events. If realloc moves or resizes an object, it counts as freed by the thread of this call.",
	Examples: []cli.Example{{Line: "trace threads trace.gtr", Does: "pairs of threads, the most objects first"}},
	Setup:    threadsSetup,
}

// A Pair is the objects that one thread allocated and another one, or the same, freed.
type Pair struct {
	Allocated uint32 `json:"allocated_by"`
	Freed     uint32 `json:"freed_by"`
	Objects   uint64 `json:"objects"`
	Bytes     uint64 `json:"bytes"`
}

// PairsOf reads the events of t; the pair with the most objects is first.
func PairsOf(t *Trace) []Pair {
	found := map[[2]uint32]*Pair{}
	for e := range t.Events() {
		if !e.Ends() {
			continue
		}
		key := [2]uint32{e.Old.Thread, e.Thread}
		if found[key] == nil {
			found[key] = &Pair{Allocated: key[0], Freed: key[1]}
		}
		found[key].Objects++
		found[key].Bytes += e.Old.Size
	}
	var out []Pair
	for _, p := range found {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Allocated, b.Allocated), cmp.Compare(a.Freed, b.Freed))
	})
	return out
}

func threadsSetup(fs *pflag.FlagSet) cli.Action {
	rows := fs.Int("rows", 20, "print so many `rows`")
	asJSON := fs.Bool("json", false, "print JSON of all pairs; sizes are bytes")
	return opened(func(env cli.Env, t *Trace) error {
		pairs := PairsOf(t)
		if *asJSON {
			return term.JSON(env.Stdout, pairs)
		}
		writePairs(env.Stdout, pairs, *rows)
		return nil
	})
}

func writePairs(w io.Writer, pairs []Pair, rows int) {
	ended := uint64(0)
	for _, p := range pairs {
		ended += p.Objects
	}
	t := term.Table{Header: []string{" ALLOCATED BY", " FREED BY", " OBJECTS", " OF ALL", " BYTES"}}
	for _, p := range pairs[:min(max(0, rows), len(pairs))] {
		t.Rows = append(t.Rows, []string{
			term.Count(uint64(p.Allocated)), term.Count(uint64(p.Freed)), term.Count(p.Objects),
			term.Percent(float64(p.Objects), float64(ended)), term.Bytes(p.Bytes),
		})
	}
	t.Write(w, width(w))
}
