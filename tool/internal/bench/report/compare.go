// Package report turns results into tables, plots, Markdown, an HTML page and a summary, and explains which
// allocator is best for a goal. It reads results and measures nothing.
package report

import (
	"math"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// Against selects the reference of the ratios of a comparison.
type Against int

// A row's values are compared to the best allocator, or to the best that is not Granary.
const (
	BestOfAll Against = iota
	BestPeer
)

// A Cell holds one allocator's value of a row, its spread and its ratio to the reference.
type Cell struct {
	Median     float64
	Range      result.Interval
	Bootstrap  result.Interval // of the median
	Rounds     int
	Cost       float64 // ratio to the reference, by the medians; below 1 is better
	Comparison result.Comparison
	Best       bool // the best of the row
	Reference  bool // the reference of the row's ratios
	Noise      bool // no difference from the reference is shown
}

// A Line is a row with a cell for each allocator.
type Line struct {
	Row   result.Row
	Cells []Cell
}

// Compare works out every row of results.
func Compare(r *result.Results, against Against) []Line {
	var lines []Line
	for _, row := range r.Rows {
		values := make([]map[int]float64, len(r.Allocators))
		total := 0
		for i, c := range r.Allocators {
			values[i] = r.Values(c.Name, row.Key())
			total += len(values[i])
		}
		if total == 0 {
			continue
		}
		lines = append(lines, compareRow(r, row, values, against))
	}
	return lines
}

func compareRow(r *result.Results, row result.Row, values []map[int]float64, against Against) Line {
	line := Line{Row: row, Cells: make([]Cell, len(values))}
	for i := range values {
		line.Cells[i] = summarise(values[i])
	}
	all := func(int) bool { return true }
	peer := func(i int) bool { return !r.Allocators[i].IsGranary() }
	best, reference := bestOf(line, all), bestOf(line, all)
	if against == BestPeer {
		reference = bestOf(line, peer)
	}
	if reference >= 0 && row.Better != result.Neutral {
		line.Cells[best].Best = true
		line.Cells[reference].Reference = true
		for i := range line.Cells {
			line.Cells[i].measure(row, line.Cells[reference], values[i], values[reference])
		}
	}
	return line
}

func summarise(values map[int]float64) Cell {
	list := make([]float64, 0, len(values))
	for _, round := range rounds(values) {
		list = append(list, values[round])
	}
	if len(list) == 0 {
		return Cell{Median: math.NaN()}
	}
	return Cell{
		Median: result.Median(list), Range: result.Range(list), Rounds: len(list),
		Bootstrap: result.Bootstrap(list, result.Median, result.Confidence, 1),
	}
}

func rounds(values map[int]float64) []int {
	var out []int
	for round := range values {
		out = append(out, round)
	}
	slices.Sort(out)
	return out
}

func bestOf(line Line, allowed func(int) bool) int {
	best := -1
	for i, c := range line.Cells {
		if c.Rounds == 0 || !allowed(i) {
			continue
		}
		if best < 0 || better(line.Row.Better, c.Median, line.Cells[best].Median) {
			best = i
		}
	}
	return best
}

func better(direction result.Better, a, b float64) bool {
	if direction == result.Higher {
		return a > b
	}
	return a < b
}

// measure computes the ratio of the cell to the reference.
func (c *Cell) measure(row result.Row, reference Cell, own, theirs map[int]float64) {
	c.Cost = Cost(row.Better, c.Median, reference.Median)
	var a, b []float64
	for _, round := range rounds(own) {
		if value, ok := theirs[round]; ok {
			a, b = append(a, own[round]), append(b, value)
		}
	}
	c.Comparison = result.Compare(a, b)
	c.Noise = !c.Reference && c.Rounds > 0 && !c.Comparison.Differs()
}

// Cost is the ratio of value to reference, inverted for metrics of which more is better: above 1, value is
// worse.
func Cost(direction result.Better, value, reference float64) float64 {
	if direction == result.Higher {
		value, reference = reference, value
	}
	if value == reference {
		return 1
	}
	return value / reference
}

// GeoMeans returns, for each allocator, the geometric mean over the rows of metric of its ratio to the
// best allocator of each row, and the number of rows. It excludes rows that keep rejects, and rows that
// lack an allocator: all means must be over the same programs.
func GeoMeans(lines []Line, metric string, keep func(best float64) bool) (means []float64, rows int) {
	var costs [][]float64
	for _, line := range lines {
		if line.Row.Metric != metric || !complete(line) {
			continue
		}
		best := line.Cells[bestOf(line, func(int) bool { return true })].Median
		if !keep(best) {
			continue
		}
		rows++
		costs = append(costs, make([]float64, len(line.Cells)))
		for i, c := range line.Cells {
			costs[rows-1][i] = Cost(line.Row.Better, c.Median, best)
		}
	}
	if rows == 0 {
		return nil, 0
	}
	for i := range costs[0] {
		column := make([]float64, rows)
		for j := range costs {
			column[j] = costs[j][i]
		}
		means = append(means, result.GeoMean(column))
	}
	return means, rows
}

func complete(line Line) bool {
	return !slices.ContainsFunc(line.Cells, func(c Cell) bool { return c.Rounds == 0 })
}
