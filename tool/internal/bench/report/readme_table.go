package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// table writes the rows that the results have.
func (l Layout) table(b *strings.Builder, results []*result.Results) {
	titles, rule := "| |", "|---|"
	for _, c := range l.Columns {
		titles, rule = titles+" "+c.Title+" |", rule+"--:|"
	}
	fmt.Fprintf(b, "%s\n%s\n", titles, rule)
	lines := make([][]Line, len(results))
	for i, r := range results {
		lines[i] = Compare(r, BestOfAll)
	}
	for _, row := range l.Rows {
		b.WriteString(l.row(row, results, lines))
	}
	b.WriteString("\n")
}

// row is a row from the first results that have it, a mean from those with the most programs; empty where none has.
func (l Layout) row(row Row, results []*result.Results, lines [][]Line) string {
	text, most := "", 0
	for i, r := range results {
		if r.Scenario != row.Scenario {
			continue
		}
		if row.Mean {
			if line, programs := l.mean(row, r, lines[i]); programs > most {
				text, most = line, programs
			}
			continue
		}
		for _, line := range lines[i] {
			if line.Row.Metric == row.Metric && row.phase.MatchString(line.Row.Phase) && text == "" {
				text = l.measured(row, r, line)
			}
		}
	}
	return text
}

// enough is the number of rounds from which on bold marks statistical ties; with fewer rounds the interval
// is so wide that nearly all allocators would be marked.
const enough = 3

// measured prints the medians of a row. Bold marks the best allocator, and with enough rounds those that
// are not statistically different from it.
func (l Layout) measured(row Row, r *result.Results, line Line) string {
	cells := make([]string, len(l.Columns))
	best, some := -1, 0
	place := func(i int) int {
		name := l.Columns[i].allocator(r)
		return slices.IndexFunc(r.Allocators, func(c allocator) bool { return c.Name == name })
	}
	for i := range l.Columns {
		at := place(i)
		if cells[i] = "-"; at < 0 || line.Cells[at].Rounds == 0 {
			continue
		}
		cells[i] = Number(line.Cells[at].Median, line.Row.Unit)
		some++
		if best < 0 || line.Cells[at].Cost < line.Cells[place(best)].Cost {
			best = i
		}
	}
	if some < 2 {
		return ""
	}
	var leading []int
	for i := range l.Columns {
		if cells[i] == cells[best] || cells[i] != "-" && r.Rounds >= enough && !worse(r, line.Row, l.Columns[i].allocator(r), l.Columns[best].allocator(r)) {
			leading = append(leading, i)
		}
	}
	title := row.Title
	if unit := Unit(line.Row.Unit); unit != "" && unit != "count" && !strings.HasSuffix(title, unit) {
		title += ", " + unit
	}
	if line.Row.Better == result.Higher {
		title += " (higher is better)"
	}
	if len(leading) == some {
		return joined(title+"; no difference shown", cells)
	}
	return joined(title, bold(cells, leading))
}

// worse reports whether the rounds show that an allocator is worse than the best.
func worse(r *result.Results, row result.Row, allocator, best string) bool {
	var a, b []float64
	own, theirs := r.Values(allocator, row.Key()), r.Values(best, row.Key())
	for round := range r.Rounds {
		x, ok1 := own[round]
		y, ok2 := theirs[round]
		if ok1 && ok2 {
			a, b = append(a, x), append(b, y)
		}
	}
	return result.Compare(a, b).Differs()
}

// mean shows the geometric means over all programs.
func (l Layout) mean(row Row, r *result.Results, lines []Line) (text string, programs int) {
	means, programs := GeoMeans(lines, row.Metric, func(best float64) bool { return best >= row.Least })
	if programs < 2 {
		return "", 0
	}
	cells := make([]string, len(l.Columns))
	least := math.Inf(1)
	for i, c := range l.Columns {
		at := slices.IndexFunc(r.Allocators, func(o allocator) bool { return o.Name == c.allocator(r) })
		if cells[i] = "-"; at < 0 {
			continue
		}
		cells[i] = fmt.Sprintf("%.2f", means[at])
		least = min(least, means[at])
	}
	var leading []int
	for i, cell := range cells {
		if cell == fmt.Sprintf("%.2f", least) {
			leading = append(leading, i)
		}
	}
	title := strings.NewReplacer("$PROGRAMS", fmt.Sprint(programs), "$ALLOCATORS", fmt.Sprint(len(r.Allocators))).Replace(row.Title) + ", ratio"
	return joined(title, bold(cells, leading)), programs
}

func bold(cells []string, which []int) []string {
	out := slices.Clone(cells)
	for _, i := range which {
		out[i] = "**" + out[i] + "**"
	}
	return out
}

func joined(title string, cells []string) string {
	return "| " + title + " | " + strings.Join(cells, " | ") + " |\n"
}

// facts are the machine, the sizes, the rounds and the allocators behind a table.
func (l Layout) facts(b *strings.Builder, suite result.Suite, results []*result.Results) {
	fewest, most := results[0].Rounds, results[0].Rounds
	for _, r := range results {
		fewest, most = min(fewest, r.Rounds), max(most, r.Rounds)
	}
	rounds := fmt.Sprintf("%d to %d rounds", fewest, most)
	switch {
	case most == 1:
		rounds = "one round, which shows no difference yet"
	case fewest == most:
		rounds = fmt.Sprintf("%d rounds", most)
	}
	size := map[string]string{"quick": "short sizes, "}[suite.Size]
	m := results[0].Machine
	fmt.Fprintf(b, "Medians. Lower is better unless the row says otherwise. **Bold**: the best allocator, or, with three rounds and more, not statistically different from it. "+
		"%s, %d CPUs, Linux %s, %s, %s; %s%s. Allocators: %s.\n\n", m.CPU, m.CPUs, m.Kernel, m.System, results[0].Started.UTC().Format("2 January 2006"), size, rounds, l.versions(results))
}

// pictured shows the plot, and in how many rows Granary loses.
func pictured(b *strings.Builder, plot, dir string, results []*result.Results) {
	lost, compared, most := 0, 0, 0
	for _, r := range results {
		shown, _ := Losing(r)
		lost += len(shown)
		most = max(most, r.Rounds)
		for _, row := range r.Rows {
			if row.Better != result.Neutral && len(r.Values("granary", row.Key())) > 0 {
				compared++
			}
		}
	}
	fmt.Fprintf(b, "![Cost of the other allocators relative to Granary, by scenario and goal](%s)\n\n", plot)
	if most == 1 {
		fmt.Fprintf(b, "[All results](%s/README.md) list first the rows in which a peer was ahead.\n\n", dir)
		return
	}
	fmt.Fprintf(b, "In %d of %d measured rows a peer is better than Granary. [All results](%s/README.md) list these rows first.\n\n", lost, compared, dir)
}

// versions are those of the columns, from the first results that have the most allocators.
func (l Layout) versions(results []*result.Results) string {
	widest := results[0]
	for _, r := range results {
		if len(r.Allocators) > len(widest.Allocators) {
			widest = r
		}
	}
	var out []string
	for _, column := range l.Columns {
		name := column.allocator(widest)
		for _, c := range widest.Allocators {
			if c.Name == name {
				out = append(out, labelled(column.Title, c.Version))
			}
		}
	}
	return strings.Join(out, ", ")
}

// labelled puts the title before a version that does not begin with a name.
func labelled(title, version string) string {
	if version != "" && unicode.IsLetter(rune(version[0])) {
		return version
	}
	return strings.TrimSpace(title + " " + version)
}

// readmePlot draws the ratio of each column to Granary, by scenario and goal.
func readmePlot(results []*result.Results, l Layout) ([]byte, error) {
	f := Plot{Kind: Ratios, Name: "measured", Title: "Cost of other allocators, 98 % intervals", XLabel: "ratio to Granary; above 1, Granary is better", LogX: true}
	lines := make([]Series, len(l.Columns))
	for i, c := range l.Columns {
		lines[i].Name = c.Title
	}
	for _, goal := range l.Goals {
		for _, r := range results {
			some := false
			for i, c := range l.Columns {
				name := c.allocator(r)
				if name == "" || name == granary {
					continue
				}
				effect, ok := Effect(r, goal.goal, name, granary)
				if !ok {
					continue
				}
				p := Point{X: effect.Ratio, Y: float64(len(f.Labels)), Low: effect.Interval.Low, High: effect.Interval.High}
				if effect.Rounds < 2 {
					p.Low, p.High = 0, 0
				}
				lines[i].Points = append(lines[i].Points, p)
				some = true
			}
			if some {
				f.Labels = append(f.Labels, r.Scenario+": "+goal.Title)
			}
		}
	}
	for _, line := range lines {
		if len(line.Points) > 0 {
			f.Lines = append(f.Lines, line)
		}
	}
	if len(f.Lines) == 0 {
		return nil, errNothingToDraw
	}
	var svg bytes.Buffer
	err := f.SVG(&svg)
	return svg.Bytes(), err
}
