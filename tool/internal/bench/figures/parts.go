package figures

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// bars are the intervals of a line's points: along X for Ratios, along Y else.
type bars struct {
	figure Figure
	line   Line
	number int
	shade  color.Color
}

// Plot draws them; where an interval leaves the picture, its end is cut.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	style := draw.LineStyle{Color: b.shade, Width: vg.Points(1.1)}
	for _, point := range b.line.Points {
		if point.Low == point.High {
			continue
		}
		if b.figure.Kind == Ratios {
			y := toY(b.figure.slot(point.Y, b.number))
			c.StrokeLine2(style, toX(math.Max(point.Low, p.X.Min)), y, toX(math.Min(point.High, p.X.Max)), y)
			continue
		}
		x := toX(b.figure.x(point.X))
		c.StrokeLine2(style, x, toY(math.Max(point.Low, p.Y.Min)), x, toY(math.Min(point.High, p.Y.Max)))
	}
}

// names are the labels of the rows of Ratios.
type names []string

// Ticks puts a label at each row, the first on top.
func (n names) Ticks(_, _ float64) []plot.Tick {
	var out []plot.Tick
	for i, label := range n {
		out = append(out, plot.Tick{Value: float64(len(n) - 1 - i), Label: label})
	}
	return out
}

// nines are the ticks of an axis of shares.
type nines struct{}

// Ticks names the percentiles that people speak of.
func (nines) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	for _, at := range []struct {
		share float64
		label string
	}{{0, "min"}, {0.5, "p50"}, {0.9, "p90"}, {0.99, "p99"}, {0.999, "p99.9"}, {0.9999, "p99.99"}} {
		value := -math.Log10(1 - at.share)
		if low-1e-9 <= value && value <= high+1e-9 {
			out = append(out, plot.Tick{Value: value, Label: at.label})
		}
	}
	return out
}

// ticks are those of a logarithmic axis: as many as are needed to read a value off.
type ticks struct{}

// Ticks takes 1, 2 and 5 of each decade, more where the axis is short, fewer where it is long.
func (ticks) Ticks(low, high float64) []plot.Tick {
	steps := []float64{1, 2, 5}
	switch span := math.Log10(high / low); {
	case span < 0.35:
		return plot.DefaultTicks{}.Ticks(low, high)
	case span < 0.9:
		steps = []float64{1, 1.5, 2, 3, 4, 5, 7}
	case span > 4:
		steps = []float64{1}
	}
	var out []plot.Tick
	for decade := math.Floor(math.Log10(low)); decade <= math.Log10(high); decade++ {
		for _, step := range steps {
			if value := step * math.Pow(10, decade); low <= value && value <= high {
				out = append(out, plot.Tick{Value: value, Label: strconv.FormatFloat(value, 'g', 3, 64)})
			}
		}
	}
	return out
}
