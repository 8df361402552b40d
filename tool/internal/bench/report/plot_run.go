package report

import (
	"slices"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// overRun is the plot of the server's memory from its start to its end, with a mark where each phase
// begins. It is empty where the run was not sampled.
func overRun(r *result.Results) []Plot {
	f := Plot{Kind: Time, Name: "time-run-rss", Title: "RSS over the run", XLabel: "time, s", YLabel: "MiB"}
	var phases []string
	runs := map[string]map[string][2]float64{}
	for _, c := range r.Allocators {
		if series, ok := runSeries(r, c.Name); ok && len(series.Points) > 1 {
			runs[c.Name] = spans(r, c.Name, series.Round, &phases)
		}
	}
	starts := starts(phases, runs)
	for _, c := range r.Allocators {
		if runs[c.Name] != nil {
			f.Lines = append(f.Lines, runLine(r, c.Name, phases, runs[c.Name], starts))
		}
	}
	if len(f.Lines) == 0 {
		return nil
	}
	for i, phase := range phases {
		f.Marks = append(f.Marks, Mark{starts[i], phase})
	}
	return []Plot{f}
}

func runSeries(r *result.Results, allocator string) (result.Series, bool) {
	i := slices.IndexFunc(r.Series, func(s result.Series) bool { return s.Allocator == allocator && s.Metric == result.MetricRunRSS })
	if i < 0 {
		return result.Series{}, false
	}
	return r.Series[i], true
}

// spans are the begin and the end of each phase of a run; phases that are new to the list are added to it.
func spans(r *result.Results, allocator string, round int, phases *[]string) map[string][2]float64 {
	out := map[string][2]float64{}
	for _, s := range r.Series {
		if s.Metric == result.MetricSpan && s.Allocator == allocator && s.Round == round && len(s.Points) > 0 {
			out[s.Phase] = s.Points[0]
			if !slices.Contains(*phases, s.Phase) {
				*phases = append(*phases, s.Phase)
			}
		}
	}
	return out
}

// starts are the positions of the phases, each as long as the median over the runs, and the end of the
// last phase.
func starts(phases []string, runs map[string]map[string][2]float64) []float64 {
	out := []float64{0}
	for i, phase := range phases {
		var lengths []float64
		for _, run := range runs {
			if span, ok := run[phase]; ok {
				lengths = append(lengths, span[1]-span[0])
			}
		}
		out = append(out, out[i]+result.Median(lengths))
	}
	return out
}

// runLine stretches each phase of a run to its length in the plot.
func runLine(r *result.Results, allocator string, phases []string, run map[string][2]float64, starts []float64) Series {
	line := Series{Name: allocator}
	series, _ := runSeries(r, allocator)
	for _, p := range series.Points {
		for i, phase := range phases {
			span, ok := run[phase]
			if !ok || p[0] < span[0] || p[0] > span[1] || span[1] <= span[0] {
				continue
			}
			x := starts[i] + (p[0]-span[0])/(span[1]-span[0])*(starts[i+1]-starts[i])
			y := p[1] / (1 << 20)
			line.Points = append(line.Points, Point{x, y, y, y})
			break
		}
	}
	return line
}
