package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/term"

	pprof "github.com/google/pprof/profile"
)

// CPUTime is where the servers spent their CPU time, by function.
type CPUTime struct {
	Allocators []string // with enough samples
	Rows       [][]string
	Remarks    []string // allocators with too few samples
	Flames     []flame
}

// A flame is the flame graph of one allocator.
type flame struct {
	Name string
	SVG  template.HTML
}

// functionRows is how many functions the table names; the others are one row.
const functionRows = 20

// a column is the CPU time under one allocator.
type column struct {
	name  string
	by    map[string]int64 // nanoseconds in all runs, by function
	total int64
	runs  int
}

// ReadCPU reads the CPU profiles in a folder of results; nil if there are none. The C library's allocator
// comes first, so that its flame graph is beside that of the next one.
func ReadCPU(dir string, r *result.Results) (*CPUTime, error) {
	out := &CPUTime{}
	var columns []column
	for _, c := range r.Allocators {
		p, runs, err := result.ReadCPU(dir, c.Name)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		if n := samples(p); n < profile.FewestSamples {
			out.Remarks = append(out.Remarks, fmt.Sprintf("%s: %s, too few to tell where the CPU time is spent; measure for longer", c.Name, term.Counted(n, "sample")))
			continue
		}
		by, total := profile.Flat(p, profile.Index(p, "cpu"))
		columns = append(columns, column{c.Name, by, total, runs})
		if err := out.draw(c.Name, ofOneRun(p, runs), float64(total)/float64(runs)); err != nil {
			return nil, err
		}
	}
	if len(columns) == 0 && len(out.Remarks) == 0 {
		return nil, nil
	}
	out.fill(columns)
	return out, nil
}

func samples(p *pprof.Profile) int {
	_, total := profile.Flat(p, profile.Index(p, "samples"))
	return int(total)
}

// ofOneRun returns the mean of the runs that a profile adds up.
func ofOneRun(p *pprof.Profile, runs int) *pprof.Profile {
	one := p.Copy()
	one.Scale(1 / float64(runs))
	return one
}

func (t *CPUTime) draw(name string, p *pprof.Profile, nanoseconds float64) error {
	var svg bytes.Buffer
	title := fmt.Sprintf("%s: %.2f s of CPU time a run", name, nanoseconds/1e9)
	if err := profile.WriteFlame(&svg, p, profile.Index(p, "cpu"), title); err != nil {
		return fmt.Errorf("draw the CPU time of %s: %w", name, err)
	}
	t.Allocators = append(t.Allocators, name)
	t.Flames = append(t.Flames, flame{name, template.HTML(svg.String())}) // drawn here, names escaped by the drawer
	return nil
}

// fill makes the table: the functions with the most CPU time under any allocator first.
func (t *CPUTime) fill(columns []column) {
	most := map[string]float64{}
	for _, c := range columns {
		for name, v := range c.by {
			most[name] = max(most[name], float64(v)/float64(c.runs))
		}
	}
	names := slices.SortedFunc(maps.Keys(most), func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), strings.Compare(a, b))
	})
	named := names[:min(functionRows, len(names))]
	for _, name := range named {
		t.row(columns, name, func(c column) int64 { return c.by[name] })
	}
	t.row(columns, fmt.Sprintf("%s more", term.Counted(len(names)-len(named), "function")), func(c column) int64 {
		rest := c.total
		for _, name := range named {
			rest -= c.by[name]
		}
		return rest
	})
	t.row(columns, "all", func(c column) int64 { return c.total })
}

func (t *CPUTime) row(columns []column, name string, of func(column) int64) {
	row := []string{name}
	for _, c := range columns {
		v := float64(of(c))
		row = append(row, fmt.Sprintf("%.0f ms  %s", v/float64(c.runs)/1e6, term.Percent(v, float64(c.total))))
	}
	t.Rows = append(t.Rows, row)
}
