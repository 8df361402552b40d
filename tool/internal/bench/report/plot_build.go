package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A Group is plots that belong together on a page.
type Group struct {
	Title, Text string
	Plots       []Plot
}

// All are the groups of plots of results; those without a plot are left out.
func All(r *result.Results) []Group {
	reference := Reference(r)
	var out []Group
	for _, g := range []Group{
		{"Ratios", "Each dot is the ratio of an allocator to " + reference + " in one row (1 is equal, to the right is worse), each bar its " +
			strconv.FormatFloat(result.Confidence*100, 'g', -1, 64) + " % interval over the rounds. A bar that crosses the line at 1 shows no difference.", ratios(r, reference)},
		{"Over the number of threads", "Medians over the rounds; bars are bootstrap intervals of the median.", curves(r)},
		{"Latency by percentile", "Medians over the rounds. The open-loop driver measures from the scheduled time of each request; other latencies are as the load program reports them.", percentiles(r)},
		{"Latency over time", "Requests of the open-loop driver by the time at which they were due and by their latency, in the first round in which the " +
			"allocator was measured: the darker, the more requests, on a logarithmic scale.", heatMaps(r)},
		{"Memory over the run", "RSS of the server from its start to its end, in the first round in which the allocator was measured. A line marks the begin of " +
			"each phase. The phases of every allocator are drawn with the same length, the median.", overRun(r)},
		{"Memory over time", "Resident memory in the first round in which the allocator was measured.", overTime(r)},
	} {
		if len(g.Plots) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// Reference is the allocator that ratios are relative to: Granary, else the first allocator.
func Reference(r *result.Results) string {
	for _, c := range r.Allocators {
		if c.Name == inspect.Granary {
			return c.Name
		}
	}
	if len(r.Allocators) == 0 {
		return ""
	}
	return r.Allocators[0].Name
}

// ratios is a plot a metric, with a row for each phase that has it.
func ratios(r *result.Results, reference string) []Plot {
	if len(r.Allocators) < 2 {
		return nil
	}
	var out []Plot
	var metrics []string
	for _, row := range r.Rows {
		if row.Better != result.Neutral && !slices.Contains(metrics, row.Metric) {
			metrics = append(metrics, row.Metric)
		}
	}
	for _, metric := range metrics {
		if f := ratioPlot(r, metric, reference); len(f.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func ratioPlot(r *result.Results, metric, reference string) Plot {
	f := Plot{Kind: Ratios, Name: FileName("ratio", metric), Title: metric, XLabel: "ratio to " + reference + "; above 1, " + reference + " is better", LogX: true}
	lines := make([]Series, len(r.Allocators))
	for _, row := range r.Rows {
		if row.Metric != metric || row.Better == result.Neutral {
			continue
		}
		theirs, some := r.Values(reference, row.Key()), false
		for i, c := range r.Allocators {
			lines[i].Name = c.Name
			if point, ok := ratioPoint(row, r.Values(c.Name, row.Key()), theirs, len(f.Labels)); ok && c.Name != reference {
				lines[i].Points = append(lines[i].Points, point)
				some = true
			}
		}
		if some {
			f.Labels = append(f.Labels, row.Phase)
		}
	}
	for _, line := range lines {
		if len(line.Points) > 0 {
			f.Lines = append(f.Lines, line)
		}
	}
	return f
}

func ratioPoint(row result.Row, own, theirs map[int]float64, label int) (Point, bool) {
	a, b := paired(own, theirs)
	if row.Better == result.Higher {
		a, b = b, a
	}
	c := result.Compare(a, b)
	if c.Rounds == 0 || c.Ratio <= 0 || math.IsInf(c.Ratio, 0) {
		return Point{}, false
	}
	p := Point{X: c.Ratio, Y: float64(label), Low: c.Interval.Low, High: c.Interval.High}
	if c.Rounds == 1 {
		p.Low, p.High = 0, 0 // unknown
	}
	return p, true
}

// paired are the values of the rounds that both allocators have.
func paired(own, theirs map[int]float64) (a, b []float64) {
	var rounds []int
	for round := range own {
		if _, ok := theirs[round]; ok {
			rounds = append(rounds, round)
		}
	}
	slices.Sort(rounds)
	for _, round := range rounds {
		a, b = append(a, own[round]), append(b, theirs[round])
	}
	return a, b
}

// numbered is a phase whose name ends in a number of something: "oltp_read_only, 64 threads".
var numbered = regexp.MustCompile(`^(.*?)(?:,| over) (\d+) (threads|connections|clients)$`)

// curves is a plot for each metric of phases that differ in a number alone.
func curves(r *result.Results) []Plot {
	type family struct{ prefix, metric, of string }
	var order []family
	rows := map[family][]result.Row{}
	for _, row := range r.Rows {
		match := numbered.FindStringSubmatch(row.Phase)
		if match == nil || row.Better == result.Neutral {
			continue
		}
		key := family{match[1], row.Metric, match[3]}
		if rows[key] == nil {
			order = append(order, key)
		}
		rows[key] = append(rows[key], row)
	}
	var out []Plot
	for _, key := range order {
		if len(rows[key]) < 2 {
			continue
		}
		unit, scale := shown(rows[key][0].Unit)
		f := Plot{Kind: Curve, Name: FileName("curve", key.prefix, key.metric), Title: key.prefix + ": " + key.metric, XLabel: key.of, YLabel: strings.TrimSuffix(key.metric+", "+unit, ", "), LogX: true}
		for _, c := range r.Allocators {
			line := Series{Name: c.Name}
			for _, row := range rows[key] {
				n, _ := strconv.ParseFloat(numbered.FindStringSubmatch(row.Phase)[2], 64) // digits
				var list []float64
				for _, value := range r.Values(c.Name, row.Key()) {
					list = append(list, value*scale)
				}
				if len(list) == 0 {
					continue
				}
				slices.Sort(list)
				i := result.Bootstrap(list, result.Median, result.Confidence, 1)
				line.Points = append(line.Points, Point{n, result.Median(list), i.Low, i.High})
			}
			if len(line.Points) > 0 {
				f.Lines = append(f.Lines, line)
			}
		}
		if len(f.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// shown maps a stored unit to the unit and scale of an axis.
func shown(stored string) (unit string, scale float64) {
	switch stored {
	case "bytes":
		return "MiB", 1.0 / (1 << 20)
	case "ratio", "count":
		return "", 1
	}
	return stored, 1
}

// percentiles is a plot for each phase with curves of latencies.
func percentiles(r *result.Results) []Plot {
	var out []Plot
	for _, phase := range phasesWith(r, result.MetricCurve) {
		f := Plot{Kind: Percent, Name: FileName("latency", phase), Title: phase, XLabel: "share of the requests", YLabel: "ms", LogY: true}
		for _, c := range r.Allocators {
			byShare := map[float64][]float64{}
			for _, s := range r.Series {
				if s.Allocator == c.Name && s.Phase == phase && s.Metric == result.MetricCurve {
					for _, p := range s.Points {
						byShare[p[0]] = append(byShare[p[0]], p[1])
					}
				}
			}
			line := Series{Name: c.Name}
			for share, values := range byShare {
				y := math.Max(result.Median(values), 1e-4)
				line.Points = append(line.Points, Point{share, y, y, y})
			}
			slices.SortFunc(line.Points, func(a, b Point) int { return int(math.Copysign(1, a.X-b.X)) })
			if len(line.Points) > 1 {
				f.Lines = append(f.Lines, line)
			}
		}
		if len(f.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func phasesWith(r *result.Results, metric string) []string {
	var out []string
	for _, s := range r.Series {
		if s.Metric == metric && !slices.Contains(out, s.Phase) {
			out = append(out, s.Phase)
		}
	}
	return out
}

// overTime is a plot for each phase in which resident memory was sampled, and for each other series
// in bytes.
func overTime(r *result.Results) []Plot {
	type key struct{ phase, metric string }
	var order []key
	for _, s := range r.Series {
		k := key{s.Phase, s.Metric}
		drawn := s.Metric == "RSS" || strings.HasSuffix(s.Metric, "by day") // the others are for those who ask
		if s.Unit == "bytes" && drawn && !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	var out []Plot
	for _, k := range order {
		x := "time, s"
		if strings.HasSuffix(k.metric, "by day") {
			x = "day"
		}
		f := Plot{Kind: Time, Name: FileName("time", k.phase, k.metric), Title: fmt.Sprintf("%s: %s", k.phase, k.metric), XLabel: x, YLabel: "MiB"}
		for _, c := range r.Allocators {
			if line := firstSeries(r, c.Name, k.phase, k.metric); len(line.Points) > 1 {
				f.Lines = append(f.Lines, line)
			}
		}
		if len(f.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func firstSeries(r *result.Results, allocator, phase, metric string) Series {
	line := Series{Name: allocator}
	for _, s := range r.Series {
		if s.Allocator != allocator || s.Phase != phase || s.Metric != metric {
			continue
		}
		for _, p := range s.Points {
			y := p[1] / (1 << 20)
			line.Points = append(line.Points, Point{p[0], y, y, y})
		}
		break
	}
	return line
}
