package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// A Goal is a property that a user optimises, such as throughput or memory, with the rows that measure it.
type Goal struct {
	Name  string // as given on the command line
	Title string
	Word  string // the cost: "memory", "time"
	takes func(result.Row) bool
}

// Goals are all goals.
var Goals = []Goal{
	{"rss", "Least memory", "memory", func(r result.Row) bool {
		return r.Better == result.Lower && (r.Unit == "bytes" || strings.Contains(r.Metric, "RSS"))
	}},
	{"throughput", "Highest throughput", "time for the same work", func(r result.Row) bool {
		return r.Better == result.Higher || r.Better == result.Lower && (r.Metric == result.MetricWall || strings.HasPrefix(r.Metric, "server CPU a "))
	}},
	{"p99", "Shortest tail", "latency at p99 and p99.9", func(r result.Row) bool { return r.Better == result.Lower && (r.Metric == "p99" || r.Metric == "p99.9") }},
	{"cpu", "Least CPU time", "CPU time", func(r result.Row) bool {
		return r.Better == result.Lower && (r.Metric == "server CPU" || r.Metric == result.MetricCPU || strings.HasPrefix(r.Metric, "server CPU a "))
	}},
}

// Find is the goal called name.
func Find(name string) (Goal, error) {
	var known []string
	for _, g := range Goals {
		if g.Name == name {
			return g, nil
		}
		known = append(known, g.Name)
	}
	return Goal{}, fmt.Errorf("there is no goal %q; choose from %s", name, strings.Join(known, ", "))
}

// Takes reports whether a row measures the goal.
func (g Goal) Takes(r result.Row) bool { return g.takes(r) }

// A Standing compares one allocator with the best allocator for a goal.
type Standing struct {
	Allocator allocators.Allocator
	Cost      float64           // geometric mean over the rows of the ratio to the best of the row
	ToBest    result.Comparison // of the allocator's cost to that of the best standing, by rounds
	Missing   int               // rows that it has no value of
}

// A Verdict is the order of the allocators for a goal, derived from the results.
type Verdict struct {
	Goal      Goal
	Rows      int
	Standings []Standing // the best first; those with missing rows last
}

// Judge computes the verdict. ok is false if no row measures the goal, or if no allocator has values in
// all these rows.
func Judge(r *result.Results, goal Goal) (v Verdict, ok bool) {
	v.Goal = goal
	rows := telling(r, goal)
	v.Rows = len(rows)
	if len(rows) == 0 {
		return v, false
	}
	scores := make([]score, len(r.Allocators))
	for i, c := range r.Allocators {
		scores[i] = scored(r, rows, c.Name)
	}
	best := -1
	for i, s := range scores {
		if s.missing == 0 && (best < 0 || s.total() < scores[best].total()) {
			best = i
		}
	}
	if best < 0 {
		return v, false
	}
	bestScores := bestScores(r, rows)
	for i, c := range r.Allocators {
		v.Standings = append(v.Standings, Standing{c, scores[i].cost(bestScores), compareScores(scores[i], scores[best]), scores[i].missing})
	}
	slices.SortStableFunc(v.Standings, func(a, b Standing) int {
		switch {
		case a.Missing != b.Missing:
			return a.Missing - b.Missing
		case a.Cost < b.Cost:
			return -1
		case a.Cost > b.Cost:
			return 1
		}
		return 0
	})
	return v, true
}

// telling are the rows of a goal with positive values only: a ratio to zero is not defined.
func telling(r *result.Results, goal Goal) []result.Row {
	var out []result.Row
	for _, row := range r.Rows {
		if !goal.takes(row) {
			continue
		}
		positive, some := true, false
		for _, c := range r.Allocators {
			for _, value := range r.Values(c.Name, row.Key()) {
				positive, some = positive && value > 0, true
			}
		}
		if positive && some {
			out = append(out, row)
		}
	}
	return out
}

// A score is one allocator's logarithmic cost, up to a constant of the row: by row, and by round.
type score struct {
	rows    []float64       // of the medians
	rounds  map[int]float64 // the mean over the rows, for rounds that have all of them
	missing int
}

func scored(r *result.Results, rows []result.Row, allocator string) score {
	s := score{rounds: map[int]float64{}}
	complete := map[int]int{}
	for _, row := range rows {
		sign := 1.0
		if row.Better == result.Higher {
			sign = -1
		}
		values := r.Values(allocator, row.Key())
		if len(values) == 0 {
			s.missing++
			s.rows = append(s.rows, math.NaN())
			continue
		}
		var list []float64
		for round, value := range values {
			list = append(list, value)
			s.rounds[round] += sign * math.Log(value) / float64(len(rows))
			complete[round]++
		}
		s.rows = append(s.rows, sign*math.Log(result.Median(list)))
	}
	for round, n := range complete {
		if n < len(rows) {
			delete(s.rounds, round)
		}
	}
	return s
}

func (s score) total() float64 { return result.Mean(s.rows) }

// leaders are the best of each row.
func bestScores(r *result.Results, rows []result.Row) []float64 {
	out := make([]float64, len(rows))
	for i := range out {
		out[i] = math.Inf(1)
	}
	for _, c := range r.Allocators {
		for i, v := range scored(r, rows, c.Name).rows {
			if v < out[i] {
				out[i] = v
			}
		}
	}
	return out
}

func (s score) cost(bestScores []float64) float64 {
	sum, n := 0.0, 0
	for i, v := range s.rows {
		if !math.IsNaN(v) {
			sum, n = sum+v-bestScores[i], n+1
		}
	}
	return math.Exp(sum / float64(n))
}

// against compares two scores over the rounds that both have.
func compareScores(a, b score) result.Comparison {
	var x, y []float64
	for _, round := range slices.Sorted(maps.Keys(a.rounds)) {
		if w, ok := b.rounds[round]; ok {
			x, y = append(x, math.Exp(a.rounds[round])), append(y, math.Exp(w))
		}
	}
	return result.Compare(x, y)
}

// Pairs is the ratio of each allocator's cost to each other's, row to column, in the order of the results.
func Pairs(r *result.Results, goal Goal) [][]Pair {
	rows := telling(r, goal)
	scores := make([]score, len(r.Allocators))
	for i, c := range r.Allocators {
		scores[i] = scored(r, rows, c.Name)
	}
	out := make([][]Pair, len(scores))
	for i, a := range scores {
		for _, b := range scores {
			c := compareScores(a, b)
			out[i] = append(out[i], Pair{c.Ratio, c.Differs(), c.Rounds > 0 && a.missing == 0 && b.missing == 0})
		}
	}
	return out
}

// Effect is the ratio of one allocator's cost for a goal to another's, compared by rounds. ok is false if
// the two have no row of the goal in common.
func Effect(r *result.Results, goal Goal, allocator, baseName string) (c result.Comparison, ok bool) {
	rows := telling(r, goal)
	a, b := scored(r, rows, allocator), scored(r, rows, baseName)
	if len(rows) == 0 || a.missing > 0 || b.missing > 0 {
		return c, false
	}
	c = compareScores(a, b)
	return c, c.Rounds > 0
}
