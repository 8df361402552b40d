package report

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
	plot   Plot
	line   Series
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
		if b.plot.Kind == Ratios {
			y := toY(b.plot.slot(point.Y, b.number))
			c.StrokeLine2(style, toX(math.Max(point.Low, p.X.Min)), y, toX(math.Min(point.High, p.X.Max)), y)
			continue
		}
		x := toX(b.plot.x(point.X))
		c.StrokeLine2(style, x, toY(math.Max(point.Low, p.Y.Min)), x, toY(math.Min(point.High, p.Y.Max)))
	}
}

// names are the labels of the rows of Ratios.
type names []string

// Ticks puts a label at each row, the first on top.
func (n names) Ticks(_, _ float64) []plot.Tick {
	var out []plot.Tick
	for i, label := range n {
		out = append(out, plot.Tick{Value: float64(len(n) - 1 - i), Label: folded(label)})
	}
	return out
}

// folded breaks a long label into two lines at the space nearest to its middle, to leave room for the
// plot.
func folded(label string) string {
	const long = 24
	if len(label) <= long {
		return label
	}
	at := -1
	for i, c := range label {
		if c == ' ' && (at < 0 || max(i, len(label)-i) < max(at, len(label)-at)) {
			at = i
		}
	}
	if at < 0 {
		return label
	}
	return label[:at] + "\n" + label[at+1:]
}

// nines are the ticks of an axis of shares.
type nines struct{}

// Ticks labels the common percentiles.
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

// Ticks uses 1, 2 and 5 of each decade, more on a short axis, fewer on a long one.
func (ticks) Ticks(low, high float64) []plot.Tick {
	steps := []float64{1, 2, 5}
	switch span := math.Log10(high / low); {
	case span < 0.35:
		return even{}.Ticks(low, high)
	case span < 0.9:
		steps = []float64{1, 1.5, 2, 3, 4, 5, 7}
	case span > 4:
		steps = []float64{1}
	}
	var out []plot.Tick
	for decade := math.Floor(math.Log10(low)); decade <= math.Log10(high); decade++ {
		for _, step := range steps {
			if value := step * math.Pow(10, decade); low <= value && value <= high {
				out = append(out, plot.Tick{Value: value, Label: number(value)})
			}
		}
	}
	return out
}

// even are the ticks of a linear axis: four to nine round numbers.
type even struct{}

// Ticks are multiples of 1, 2 or 5 times a power of ten.
func (even) Ticks(low, high float64) []plot.Tick {
	if !(high > low) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, factor := range []float64{5, 2} {
		if (high-low)/(step*factor) >= 4 {
			step *= factor
			break
		}
	}
	var out []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		out = append(out, plot.Tick{Value: i * step, Label: number(i * step)})
	}
	return out
}

// number formats a value briefly, without an exponent for values of usual size.
func number(v float64) string {
	if v == 0 {
		return "0" // and not "-0"
	}
	if a := math.Abs(v); a >= 1e-4 && a < 1e7 {
		return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// marks are vertical lines with their texts beside them, from the top down.
type marks []Mark

// Plot draws the lines, and the texts for which the next line leaves room.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	style := p.X.Tick.Label
	style.Font.Size, style.Color, style.Rotation = 7, color.Gray{0x60}, -math.Pi/2
	style.XAlign, style.YAlign = draw.XLeft, draw.YBottom
	line := draw.LineStyle{Color: color.Gray{0xb0}, Width: vg.Points(0.6), Dashes: []vg.Length{vg.Points(3), vg.Points(2)}}
	for i, mark := range m {
		x, end := toX(mark.X), c.Max.X
		if i+1 < len(m) {
			end = toX(m[i+1].X)
		}
		c.StrokeLine2(line, x, c.Min.Y, x, c.Max.Y)
		if end-x > style.Font.Size {
			c.FillText(style, vg.Point{X: x + vg.Points(1.5), Y: c.Max.Y - vg.Points(2)}, shortened(mark.Text))
		}
	}
}

// shortened keeps the begin of a long text.
func shortened(text string) string {
	const longest = 44
	if letters := []rune(text); len(letters) > longest {
		return string(letters[:longest-1]) + "…"
	}
	return text
}
