package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"granary/tool/internal/bench"
)

// Missed lists the targets that Granary missed, the farthest first.
func Missed(lines []Line) Table {
	t := Table{Title: "Targets missed", Header: []string{"row", "target", "measured", "missed by"}}
	var missed []Line
	met := 0
	for _, line := range lines {
		switch {
		case line.Target == nil:
		case line.Target.Met:
			met++
		default:
			missed = append(missed, line)
		}
	}
	slices.SortStableFunc(missed, func(a, b Line) int {
		if a.Target.Missed > b.Target.Missed {
			return -1
		}
		return 1
	})
	for _, line := range missed {
		unit := line.Row.Unit
		t.Rows = append(t.Rows, []string{
			line.Row.Phase + ": " + line.Row.Metric + ", " + Unit(unit),
			Number(line.Target.Goal, unit), Number(line.Target.Value, unit), fmt.Sprintf("%.0f%%", line.Target.Missed*100),
		})
	}
	t.Title = fmt.Sprintf("Targets missed: %d of %d", len(missed), len(missed)+met)
	return t
}

// Tables are those of a report: every row, and where rows have targets, which of them are missed, and the
// geometric means over the programs.
func Tables(title string, r *bench.Results, against Against) []Table {
	lines := Compare(r, against)
	if len(lines) == 0 {
		return nil
	}
	tables := []Table{Lines(title, r, lines)}
	if !HasTargets(r) {
		return tables
	}
	for _, t := range []Table{Missed(lines), Means(r, lines)} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// HasTargets is true of results with rows that Granary has set itself a target for.
func HasTargets(r *bench.Results) bool {
	return slices.ContainsFunc(r.Rows, func(row bench.Row) bool { return row.Target != nil })
}

// Document writes a whole report as Markdown: what was measured where, the rows where Granary loses, the
// tables in reverse, so that the summaries come first, and the remarks.
func Document(out io.Writer, r *bench.Results, tables []Table, against Against) {
	m := r.Machine
	fmt.Fprintf(out, "# Results: %s\n\n", r.Scenario)
	fmt.Fprintf(out, "Measured %s with granary %s in %.0f s, %s, on %s, %d CPUs, %.1f GiB, %s, Linux %s, huge pages %s. Load before: %s.\n\n",
		r.Started.UTC().Format("2 January 2006"), r.Version, r.Seconds, bench.Counted(r.Rounds, "round"), m.CPU, m.CPUs,
		float64(m.MemoryBytes)/(1<<30), m.System, m.Kernel, m.HugePages, m.LoadBefore)
	losses := Losses(r)
	for _, t := range losses {
		t.Markdown(out)
	}
	if HasOurs(r) && len(losses) == 0 {
		fmt.Fprintf(out, "%s\n\n", LosesNowhere)
	}
	for i := len(tables) - 1; i >= 0; i-- {
		tables[i].Markdown(out)
	}
	fmt.Fprintf(out, "%s\n", Legend(against))
	contenders := Table{Title: "Allocators", Header: []string{"name", "version", "library", "variables", "SHA-256"}}
	for _, c := range r.Contenders {
		contenders.Rows = append(contenders.Rows, []string{c.Name, c.Version, base(c.Path), strings.Join(c.Env, " "), short(c.SHA256)})
	}
	contenders.Markdown(out)
	Remarks(out, r)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func short(sum string) string { return sum[:min(12, len(sum))] }
