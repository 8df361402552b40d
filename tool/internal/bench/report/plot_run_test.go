package report

import (
	"bytes"
	"image/png"
	"math"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// twoRuns are the runs of two allocators; the phases of the second take twice as long.
func twoRuns() *result.Results {
	r := &result.Results{Allocators: []allocators.Allocator{{Name: "glibc"}, {Name: "granary"}}}
	for i, c := range r.Allocators {
		var s result.Sample
		slow := float64(i + 1)
		s.Trace(result.Series{Phase: "start", Metric: result.MetricSpan, Unit: "s", Points: [][2]float64{{0, 1 * slow}}})
		s.Trace(result.Series{Phase: "load", Metric: result.MetricSpan, Unit: "s", Points: [][2]float64{{1 * slow, 5 * slow}}})
		s.Trace(result.Series{Metric: result.MetricRunRSS, Unit: "bytes", Points: [][2]float64{{0.5 * slow, 1 << 20}, {3 * slow, 3 << 20}, {5 * slow, 2 << 20}}})
		s.Count(result.Histogram{Phase: "load", Metric: result.MetricLatencies, Unit: "ms", Interval: 0.5,
			Buckets: []result.Bucket{{Interval: 0, Bound: 1, Count: 9}, {Interval: 3, Bound: 10, Count: uint64(1 + i)}}})
		r.Add(c.Name, 0, s)
		s.Trace(result.Series{Metric: result.MetricRunRSS, Unit: "bytes", Points: [][2]float64{{1, 1 << 30}, {2, 1 << 30}}})
		r.Add(c.Name, 1, s) // a later round is not drawn
	}
	return r
}

func TestPhasesOfAllRunsBeginAtTheSameMark(t *testing.T) {
	list := overRun(twoRuns())
	if len(list) != 1 || len(list[0].Lines) != 2 {
		t.Fatalf("%+v", list)
	}
	f := list[0]
	if len(f.Marks) != 2 || f.Marks[0] != (Mark{0, "start"}) || f.Marks[1] != (Mark{1.5, "load"}) { // medians of 1 and 2, of 4 and 8
		t.Errorf("marks %+v", f.Marks)
	}
	for _, line := range f.Lines {
		for i, want := range []Point{{X: 0.75, Y: 1}, {X: 4.5, Y: 3}, {X: 7.5, Y: 2}} {
			if p := line.Points[i]; math.Abs(p.X-want.X) > 1e-9 || p.Y != want.Y {
				t.Errorf("%s: point %d is %+v, not %+v", line.Name, i, p, want)
			}
		}
	}
	if f, ok := Lead(twoRuns(), Goals[0]); !ok || f.Name != "time-run-rss" {
		t.Errorf("the plot of the memory is %q", f.Name)
	}
}

func TestTheCellsOfAHeatMapAreWhereTheirBucketsAre(t *testing.T) {
	list := heatMaps(twoRuns())
	if len(list) != 2 || list[0].Map.Scales != list[1].Map.Scales || list[0].Map.Most != 9 || list[0].Map.Seconds != 2 {
		t.Fatalf("%+v", list)
	}
	m := list[0].Map
	if top := m.row(m.High); top != result.LevelsADecade || m.row(1) != 0 { // a decade apart
		t.Errorf("the rows are %d and %d", m.row(1), top)
	}
	if one, most := m.shade(1), m.shade(9); one.B <= most.B {
		t.Errorf("%v is not lighter than %v", one, most)
	}
	var drawn bytes.Buffer
	if err := list[0].PNG(&drawn); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&drawn)
	if err != nil {
		t.Fatal(err)
	}
	dark, light := 0, 0
	for x := range picture.Bounds().Dx() {
		for y := range picture.Bounds().Dy() {
			switch r, g, b, _ := picture.At(x, y).RGBA(); [3]uint32{r >> 8, g >> 8, b >> 8} {
			case [3]uint32{0x03, 0x1a, 0x4d}:
				dark++
			case [3]uint32{uint32(m.shade(1).R), uint32(m.shade(1).G), uint32(m.shade(1).B)}:
				light++
			}
		}
	}
	if dark < 20 || light < 20 || max(dark, light) > 3*min(dark, light)/2 {
		t.Errorf("the two cells have %d and %d pixels", dark, light)
	}
}
