package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Point is a value with its interval; Low and High are equal to Y where there is none.
type Point struct{ X, Y, Low, High float64 }

// A Series is the points of one allocator.
type Series struct {
	Name   string
	Points []Point
}

// A Kind selects the form of a plot.
type Kind int

// The kinds of plots.
const (
	Ratios  Kind = iota // dots with intervals, a row for each label, X is the ratio
	Time                // lines
	Curve               // lines with intervals
	Percent             // lines; X is a share, drawn as the number of nines
	Heat                // a heat map
)

// A Plot is one picture of results: ratios with their intervals, memory over time, latency by percentile and
// as a heat map, or curves over the number of threads. It is data first, which tests read, and SVG or PNG after that.
type Plot struct {
	Kind           Kind
	Name           string // of its file
	Title          string
	XLabel, YLabel string
	Labels         []string // of the rows of Ratios, from the top
	LogX, LogY     bool
	Lines          []Series
	Marks          []Mark
	Map            HeatMap // of Heat
}

// A Mark is a vertical line with a text.
type Mark struct {
	X    float64
	Text string
}

var unsafeName = regexp.MustCompile(`[^a-z0-9.]+`)

// FileName makes a file name of words.
func FileName(words ...string) string {
	return strings.Trim(unsafeName.ReplaceAllString(strings.ToLower(strings.Join(words, " ")), "-"), "-")
}

// palette has colours that are distinct for colour-blind readers too. Granary is saturated blue, glibc is
// grey.
var palette = []color.RGBA{
	{0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
	{0x8c, 0x56, 0x4b, 0xff}, {0xb8, 0xa9, 0x00, 0xff}, {0x94, 0x67, 0xbd, 0xff}, {0x2f, 0x4f, 0x4f, 0xff}, {0x6c, 0xc2, 0x1a, 0xff},
}

// colour is that of the i-th line.
func colour(name string, i int) color.RGBA {
	switch {
	case name == "granary":
		return color.RGBA{0x00, 0x3c, 0xc8, 0xff}
	case name == "glibc":
		return color.RGBA{0x80, 0x80, 0x80, 0xff}
	}
	return palette[i%len(palette)]
}

// shapes and dashes distinguish lines in print and for colour-blind readers. Granary and the C library
// have plain ones.
var (
	shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}
	dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(2)}, {vg.Points(2), vg.Points(2)}}
)

func plain(name string) bool { return name == "granary" || name == "glibc" }

func shape(name string, i int) draw.GlyphDrawer {
	if plain(name) {
		return draw.CircleGlyph{}
	}
	return shapes[i%len(shapes)]
}

func dash(name string, i int) []vg.Length {
	if plain(name) {
		return nil
	}
	return dashes[i%len(dashes)]
}

const rowHeight = 0.42 * vg.Centimeter

func (f Plot) width() vg.Length {
	if f.Kind == Heat {
		return 9 * vg.Centimeter
	}
	return 17 * vg.Centimeter
}

// Height is that of the picture.
func (f Plot) height() vg.Length {
	legend := 1.3*vg.Centimeter + vg.Length(len(f.Lines))*0.52*vg.Centimeter
	switch f.Kind {
	case Heat:
		return 6.5 * vg.Centimeter
	case Ratios:
		return max(legend, 3.6*vg.Centimeter+rowHeight*vg.Length(len(f.Labels)*max(2, len(f.Lines)))/2.2)
	}
	return max(legend, 9*vg.Centimeter)
}

// SVG writes the plot as an SVG document.
func (f Plot) SVG(out io.Writer) error {
	p, legend, err := f.gonum()
	if err != nil {
		return err
	}
	canvas := vgsvg.New(f.width(), f.height())
	f.lay(p, legend, draw.New(canvas))
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return fmt.Errorf("draw %s: %w", f.Name, err)
	}
	if _, err := out.Write(fitted(drawn.Bytes())); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}

// texts are the words of a picture, with their size in pixels.
var texts = regexp.MustCompile(`(<text [^>]*font-family:)Liberation Sans([^>]*font-size:([0-9.]+)px")>([^<]*)</text>`)

// fitted sets each text to the length of the layout, whichever font the reader's machine uses instead of
// the picture's.
func fitted(svg []byte) []byte {
	return texts.ReplaceAllFunc(svg, func(text []byte) []byte {
		part := texts.FindSubmatch(text)
		size, err := strconv.ParseFloat(string(part[3]), 64)
		if err != nil {
			return text
		}
		words := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
		face := font.DefaultCache.Lookup(words, words.Size)
		length := face.Width(html.UnescapeString(string(part[4])))
		return fmt.Appendf(nil, `%sLiberation Sans,Arimo,Arial,Helvetica,sans-serif%s textLength="%.5g" lengthAdjust="spacingAndGlyphs">%s</text>`,
			part[1], part[2], length.Points(), part[4])
	})
}

// PNG writes the plot as a picture.
func (f Plot) PNG(out io.Writer) error {
	p, legend, err := f.gonum()
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(f.width(), f.height()), vgimg.UseDPI(130))
	f.lay(p, legend, draw.New(canvas))
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(out); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}

// Inline is the SVG element for a page.
func (f Plot) Inline() (string, error) {
	var b bytes.Buffer
	if err := f.SVG(&b); err != nil {
		return "", err
	}
	text := b.String()
	return text[max(0, strings.Index(text, "<svg")):], nil
}

// lay puts the legend to the right of the plot, where it hides nothing.
func (f Plot) lay(p *plot.Plot, legend plot.Legend, c draw.Canvas) {
	room := legend.Rectangle(c).Size().X + 0.3*vg.Centimeter
	p.Draw(draw.Crop(c, 0.25*vg.Centimeter, -room, 0, 0))
	legend.Top, legend.Left = true, false
	legend.Draw(draw.Crop(c, 0, 0, 0, -0.9*vg.Centimeter))
}

func (f Plot) gonum() (*plot.Plot, plot.Legend, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.XLabel, f.YLabel
	p.Title.TextStyle.Font.Size, p.Title.Padding = 12, 0.2*vg.Centimeter
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	legend := plot.NewLegend()
	legend.ThumbnailWidth, legend.Padding = 0.5*vg.Centimeter, 0.08*vg.Centimeter
	f.axes(p)
	if len(f.Marks) > 0 {
		p.Add(marks(f.Marks))
	}
	if f.Kind == Heat {
		f.Map.add(p)
		return p, legend, nil
	}
	for i, line := range f.Lines {
		if err := f.add(p, &legend, i, line); err != nil {
			return nil, legend, fmt.Errorf("draw %s of %s: %w", line.Name, f.Name, err)
		}
	}
	f.room(p)
	return p, legend, nil
}

func (f Plot) axes(p *plot.Plot) {
	p.X.Tick.Marker, p.Y.Tick.Marker = even{}, even{}
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks{}
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, ticks{}
	}
	switch f.Kind {
	case Ratios:
		p.Y.Tick.Marker = names(f.Labels)
		p.Y.Padding = 0.2 * vg.Centimeter
	case Percent:
		p.X.Tick.Marker = nines{}
	case Heat:
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, ticks{}
		p.Title.TextStyle.Font.Size = 9
	}
}

// room widens the axes: Ratios has room for all its rows, and no axis has length zero.
func (f Plot) room(p *plot.Plot) {
	if f.Kind == Ratios {
		p.Y.Min, p.Y.Max = -0.6, float64(len(f.Labels))-0.4
		p.X.Min, p.X.Max = math.Min(p.X.Min, 1)*0.96, math.Max(p.X.Max, 1)*1.04        // no dot on the edge
		one, _ := plotter.NewLine(plotter.XYs{{X: 1, Y: p.Y.Min}, {X: 1, Y: p.Y.Max}}) // two points cannot fail
		one.Color, one.Width = color.Gray{0x40}, vg.Points(0.7)
		p.Add(one)
		return
	}
	if !f.LogY {
		p.Y.Min = math.Min(0, p.Y.Min)
	}
	if p.Y.Max <= p.Y.Min {
		p.Y.Max = p.Y.Min + 1
	}
	if p.X.Max <= p.X.Min {
		p.X.Max = p.X.Min + 1
	}
	if len(f.Marks) > 0 && !f.LogY {
		p.Y.Max += (p.Y.Max - p.Y.Min) / 4 // the texts of the marks begin above the lines
	}
}

func (f Plot) add(p *plot.Plot, legend *plot.Legend, i int, line Series) error {
	shade := colour(line.Name, i)
	xys := make(plotter.XYs, len(line.Points))
	for j, point := range line.Points {
		xys[j] = plotter.XY{X: f.x(point.X), Y: point.Y}
		if f.Kind == Ratios { // Y is the label; the allocators of a label are below each other
			xys[j].Y = f.slot(point.Y, i)
		}
	}
	heavy := vg.Points(1.2)
	if line.Name == "granary" {
		heavy = vg.Points(2.4)
	}
	if f.Kind != Ratios {
		l, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		l.Color, l.Width, l.Dashes = shade, heavy, dash(line.Name, i)
		p.Add(l)
		legend.Add(line.Name, l)
	}
	if f.Kind == Ratios || f.Kind == Curve {
		dots, err := plotter.NewScatter(xys)
		if err != nil {
			return err
		}
		dots.Shape, dots.Color, dots.Radius = shape(line.Name, i), shade, vg.Points(2.6)
		p.Add(dots, bars{f, line, i, shade})
		if f.Kind == Ratios {
			legend.Add(line.Name, dots)
		}
	}
	return nil
}

// slot is the height of the i-th allocator at the row of a label, the first label on top.
func (f Plot) slot(label float64, i int) float64 {
	spread := 0.7 / float64(max(1, len(f.Lines)))
	return float64(len(f.Labels)-1) - label + 0.35 - spread*(float64(i)+0.5)
}

// x puts shares onto the axis of nines: 0.9 is 1, 0.99 is 2.
func (f Plot) x(x float64) float64 {
	if f.Kind == Percent {
		return -math.Log10(1 - math.Min(x, 0.999999))
	}
	return x
}
