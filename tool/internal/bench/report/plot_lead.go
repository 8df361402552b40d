package report

import (
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// Lead is the plot that shows most about a goal: memory over the run, latency by percentile, else the
// ratios of the goal's metric that has the most rows.
func Lead(r *result.Results, goal Goal) (Plot, bool) {
	switch goal.Name {
	case "rss":
		if list := overRun(r); len(list) > 0 {
			return list[0], true
		}
	case "p99":
		if list := percentiles(r); len(list) > 0 {
			return list[0], true
		}
	}
	best, found := Plot{}, false
	for _, f := range ratios(r, Reference(r)) {
		if takes(r, goal, f.Title) && len(f.Labels) > len(best.Labels) {
			best, found = f, true
		}
	}
	return best, found
}

func takes(r *result.Results, goal Goal, metric string) bool {
	for _, row := range r.Rows {
		if row.Metric == metric && goal.Takes(row) {
			return true
		}
	}
	return false
}
