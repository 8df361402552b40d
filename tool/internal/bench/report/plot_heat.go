package report

import (
	"image"
	"image/color"
	"math"

	"github.com/granary-allocator/granary/tool/internal/bench/result"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A HeatMap shows a histogram of values over time. Maps with the same scales can be compared.
type HeatMap struct {
	Histogram result.Histogram
	Scales
}

// Scales are the axes of heat maps: Seconds from 0, values above Low up to High, and the count that is
// drawn darkest. Step is the ratio of the bounds of neighbouring buckets.
type Scales struct {
	Seconds         float64
	Low, High, Step float64
	Most            uint64
}

// include widens the scales to show a histogram. Its buckets are of equal width on a logarithmic scale.
func (s *Scales) include(h result.Histogram) {
	for _, b := range h.Buckets {
		s.Seconds = max(s.Seconds, float64(b.Interval+1)*h.Interval)
		if s.Low == 0 || b.Bound/s.Step < s.Low {
			s.Low = b.Bound / s.Step
		}
		s.High, s.Most = max(s.High, b.Bound), max(s.Most, b.Count)
	}
}

// heatMaps is a plot for each phase with latencies over time and for each allocator; the plots of a
// phase have the same scales.
func heatMaps(r *result.Results) []Plot {
	var order []string
	first := map[string][]result.Histogram{}
	for _, h := range r.Histograms {
		known := first[h.Phase]
		if len(known) == 0 {
			order = append(order, h.Phase)
		}
		if h.Metric == result.MetricLatencies && (len(known) == 0 || !measuredLoad(known, h.Allocator)) {
			first[h.Phase] = append(known, h)
		}
	}
	var out []Plot
	for _, phase := range order {
		scales := Scales{Step: math.Pow(10, 1.0/result.LevelsADecade)}
		for _, h := range first[phase] {
			scales.include(h)
		}
		for _, c := range r.Allocators {
			for _, h := range first[phase] {
				if h.Allocator == c.Name && len(h.Buckets) > 0 {
					title := c.Name + "\n" + shortened(phase)
					out = append(out, Plot{Kind: Heat, Name: FileName("heat", phase, c.Name), Title: title, XLabel: "time, s", YLabel: h.Unit, Map: HeatMap{h, scales}})
				}
			}
		}
	}
	return out
}

func measuredLoad(list []result.Histogram, allocator string) bool {
	for _, h := range list {
		if h.Allocator == allocator {
			return true
		}
	}
	return false
}

func (m HeatMap) add(p *plot.Plot) {
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, m.Seconds, m.Low, m.High
	p.X.Padding, p.Y.Padding = 0, 0
	p.Add(m)
}

// sharpness is the side of a cell in pixels: browsers blur an image that they enlarge.
const sharpness = 8

// Plot draws the map as one image.
func (m HeatMap) Plot(c draw.Canvas, p *plot.Plot) {
	columns := int(math.Round(m.Seconds / m.Histogram.Interval))
	rows := m.row(m.High) + 1
	picture := image.NewRGBA(image.Rect(0, 0, columns*sharpness, rows*sharpness))
	for _, b := range m.Histogram.Buckets {
		x, y, shade := b.Interval*sharpness, (rows-1-m.row(b.Bound))*sharpness, m.shade(b.Count)
		for i := range sharpness * sharpness {
			picture.SetRGBA(x+i%sharpness, y+i/sharpness, shade)
		}
	}
	toX, toY := p.Transforms(&c)
	c.DrawImage(vg.Rectangle{Min: vg.Point{X: toX(0), Y: toY(m.Low)}, Max: vg.Point{X: toX(m.Seconds), Y: toY(m.High)}}, picture)
}

// row is the row of a bucket with this bound, the lowest one 0.
func (m HeatMap) row(bound float64) int {
	return int(math.Round(math.Log(bound/m.Low)/math.Log(m.Step))) - 1
}

// shade is from light blue for one to dark blue for most.
func (m HeatMap) shade(count uint64) color.RGBA {
	part := math.Log(float64(count)+1) / math.Log(float64(m.Most)+1)
	mix := func(light, dark float64) uint8 { return uint8(light + (dark-light)*part) }
	return color.RGBA{mix(0xa9, 0x03), mix(0xcb, 0x1a), mix(0xe8, 0x4d), 0xff}
}
