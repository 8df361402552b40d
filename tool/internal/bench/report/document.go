package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// Tables are those of a report: every row, and for results of several programs the geometric means over
// the programs.
func Tables(title string, r *result.Results, against Against) []Table {
	lines := Compare(r, against)
	if len(lines) == 0 {
		return nil
	}
	tables := []Table{Lines(title, r, lines)}
	if means := Means(r, lines); ofPrograms(r) && len(means.Rows) > 0 {
		tables = append(tables, means)
	}
	return tables
}

// ofPrograms reports whether the results are of several programs: each program is a phase with a row of
// page faults.
func ofPrograms(r *result.Results) bool {
	programs := 0
	for _, row := range r.Rows {
		if row.Metric == result.MetricFaults {
			programs++
		}
	}
	return programs > 1
}

// Document writes a whole report as Markdown: what was measured where, the rows where Granary loses, the
// tables in reverse, so that the summaries come first, and the remarks.
func Document(out io.Writer, r *result.Results, tables []Table, against Against) {
	m := r.Machine
	fmt.Fprintf(out, "# Results: %s\n\n", r.Scenario)
	fmt.Fprintf(out, "Measured %s with granary %s in %.0f s, %s, on %s, %d CPUs, %.1f GiB, %s, Linux %s, huge pages %s. Load average before: %s.\n\n",
		r.Started.UTC().Format("2 January 2006"), r.Version, r.Seconds, term.Counted(r.Rounds, "round"), m.CPU, m.CPUs,
		float64(m.MemoryBytes)/(1<<30), m.System, m.Kernel, m.HugePages, m.LoadAverages())
	losses := Losses(r)
	for _, t := range losses {
		t.Markdown(out)
	}
	if HasGranaryAndPeer(r) && len(losses) == 0 {
		fmt.Fprintf(out, "%s\n\n", LosesNowhere)
	}
	for i := len(tables) - 1; i >= 0; i-- {
		tables[i].Markdown(out)
	}
	fmt.Fprintf(out, "%s\n", Legend(against))
	used := Table{Title: "Allocators", Header: []string{"name", "version", "library", "variables", "SHA-256"}}
	for _, c := range r.Allocators {
		used.Rows = append(used.Rows, []string{c.Name, c.Version, base(c.Path), strings.Join(c.Env, " "), short(c.SHA256)})
	}
	used.Markdown(out)
	Remarks(out, r)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func short(sum string) string { return sum[:min(12, len(sum))] }
