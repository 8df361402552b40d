package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A Table is the source of the terminal and Markdown forms. A cell has up to two parts, separated by a
// line break: the value, and its spread and mark.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
	Breaks map[int]bool // a rule is above these rows
}

// Lines makes the table of compared lines: an allocator a column, and a row of its own that names each
// phase.
func Lines(title string, r *result.Results, lines []Line) Table {
	t := Table{Title: title, Header: []string{""}, Breaks: map[int]bool{}}
	for _, c := range r.Allocators {
		t.Header = append(t.Header, c.Name)
	}
	phase := ""
	for _, line := range lines {
		if line.Row.Phase != phase {
			t.Breaks[len(t.Rows)] = len(t.Rows) > 0
			t.Rows = append(t.Rows, append([]string{line.Row.Phase}, make([]string, len(t.Header)-1)...))
			phase = line.Row.Phase
		}
		t.Rows = append(t.Rows, lineCells(line))
	}
	return t
}

func lineCells(line Line) []string {
	row := []string{"  " + line.Row.Metric}
	if unit := Unit(line.Row.Unit); unit != "" && unit != "count" && unit != "ratio" {
		row[0] += ", " + unit
	}
	for _, c := range line.Cells {
		row = append(row, c.Text(line.Row.Unit, "\n"))
	}
	return row
}

// Means makes the table of geometric means; a row for each that has programs.
func Means(r *result.Results, lines []Line) Table {
	t := Table{Title: "Geometric mean of the ratio to the best allocator of each program (1.00 = best everywhere)", Header: []string{"over", "programs"}}
	for _, c := range r.Allocators {
		t.Header = append(t.Header, c.Name)
	}
	const large = 16 << 20
	for _, m := range []struct {
		label, metric string
		keep          func(best float64) bool
	}{
		{"wall time", result.MetricWall, func(float64) bool { return true }},
		{"CPU time", result.MetricCPU, func(float64) bool { return true }},
		{"peak RSS", result.MetricPeakRSS, func(float64) bool { return true }},
		{"peak RSS, programs of 16 MiB and more", result.MetricPeakRSS, func(best float64) bool { return best >= large }},
	} {
		means, rows := GeoMeans(lines, m.metric, m.keep)
		if rows == 0 {
			continue
		}
		row := []string{m.label, fmt.Sprint(rows)}
		for _, mean := range means {
			row = append(row, fmt.Sprintf("%.2f", mean))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// writer fills go-pretty's table, with separator between the parts of a cell.
func (t Table) writer(separator string) table.Writer {
	w := table.NewWriter()
	cells := func(words []string) table.Row {
		row := make(table.Row, len(words))
		for i, word := range words {
			row[i] = strings.ReplaceAll(word, "\n", separator)
		}
		return row
	}
	w.AppendHeader(cells(t.Header))
	for i, row := range t.Rows {
		if t.Breaks[i] {
			w.AppendSeparator()
		}
		w.AppendRow(cells(row))
	}
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Options = table.Options{SeparateHeader: true}
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	return w
}

// Terminal writes the table for a terminal of the given width in columns; 0 is unlimited. If the table is
// too wide, the parts of a cell are written on separate lines, and then the columns below each other.
func (t Table) Terminal(out io.Writer, width int) {
	term.Line(out, "%s", t.Title)
	if rendered := t.writer(" ").Render(); width == 0 || text.LongestLineLen(rendered) <= width {
		fmt.Fprintf(out, "%s\n\n", rendered)
		return
	}
	for _, part := range t.split(width) {
		fmt.Fprintf(out, "%s\n\n", part.writer("\n").Render())
	}
}

// Markdown writes the table as Markdown.
func (t Table) Markdown(out io.Writer) {
	fmt.Fprintf(out, "### %s\n\n%s\n\n", t.Title, t.writer(" ").RenderMarkdown())
}

// Legend explains the cells.
func Legend(against Against) string {
	to := "the best of its row"
	if against == BestPeer {
		to = "the best peer of its row"
	}
	return "Each value is the median over the rounds, ±half the range. * is the best of its row; ×1.04 is 4 % worse\n" +
		"than " + to + "; ≈ says that the rounds show no difference from it. A peer is any allocator but Granary.\n"
}

// disturbed is the share of the machine's CPU time used by other processes above which the report warns.
const disturbed = 0.05

// Disturbance is a remark about the CPU time of other processes. It is empty if they used little, or if
// the results do not record it.
func Disturbance(r *result.Results) string {
	n, worst, held := 0, 0.0, 0.0
	for _, run := range r.Runs {
		held += run.Throttled
		share := (run.OthersCPU + run.Stolen) / (run.Seconds * float64(max(1, r.Machine.CPUs)))
		if share > disturbed {
			n++
			worst = max(worst, share)
		}
	}
	throttled := ""
	if held > 0.1 {
		throttled = fmt.Sprintf("The CPU limit of this control group held the runs back for %.1f s in all: times and latencies include these pauses. ", held)
	}
	if n == 0 {
		return strings.TrimSpace(throttled)
	}
	return throttled + fmt.Sprintf("In %d of %d runs other processes or the hypervisor took more than %.0f %% of the machine's CPU time, in the worst %.0f %%: "+
		"times and latencies scatter more than memory. Measure again on a quieter machine.", n, len(r.Runs), disturbed*100, worst*100)
}

// Remarks writes the failures and the remarks of the results.
func Remarks(out io.Writer, r *result.Results) {
	if note := Disturbance(r); note != "" {
		term.Line(out, "Note: %s", note)
	}
	for _, f := range r.Failures {
		who := strings.TrimSpace(f.Subject + " " + f.Allocator)
		term.Line(out, "%s failed in round %d: %s", who, f.Round+1, f.Reason)
	}
	for _, note := range r.Notes {
		term.Line(out, "Note: %s", note)
	}
}
