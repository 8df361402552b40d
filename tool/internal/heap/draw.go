package heap

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	"github.com/granary-allocator/granary/tool/internal/term"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of the drawing in points.
const (
	margin    = 16
	titleSize = 14
	textSize  = 10
	line      = 16 // from one line of text to the next
	pageWidth = 960
	gap       = 3 // between regions
	labels    = 100
	barRow    = 14
)

// detail is up to how many trackers each granule is drawn; beyond, a tracker is one stacked bar.
const detail = 1024

// A drawing counts y from the top, unlike a canvas.
type drawing struct {
	canvas vg.Canvas
	height vg.Length
	cache  *font.Cache
}

// SVG writes the picture as SVG.
func (p Picture) SVG(w io.Writer) error {
	width, height := p.size()
	c := vgsvg.New(width, height)
	p.draw(c, height)
	var svg bytes.Buffer
	if _, err := c.WriteTo(&svg); err != nil {
		return fmt.Errorf("write the SVG: %w", err)
	}
	// Where the font is not installed, another of its kind does.
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans, Arial, sans-serif;"))
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write the SVG: %w", err)
	}
	return nil
}

// PNG writes the picture as PNG.
func (p Picture) PNG(w io.Writer) error {
	width, height := p.size()
	c := vgimg.New(width, height)
	p.draw(c, height)
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(w); err != nil {
		return fmt.Errorf("write the PNG: %w", err)
	}
	return nil
}

// grid is how the trackers are laid out.
type grid struct {
	columns, rows int
	cell          vg.Length // of a granule; a tracker is 16 by 8 of them
}

func (p Picture) grid() grid {
	g := grid{cell: 3}
	if len(p.Trackers) > detail {
		g.cell = 1
	}
	g.columns = max(1, int((pageWidth-2*margin)/(16*g.cell+gap)))
	g.rows = (len(p.Trackers) + g.columns - 1) / g.columns
	return g
}

func (p Picture) size() (width, height vg.Length) {
	g := p.grid()
	height = 2*margin + 5*line + vg.Length(g.rows)*(8*g.cell+gap) + 2*line + vg.Length(len(p.shown()))*barRow
	return pageWidth, height
}

func (p Picture) draw(c vg.Canvas, height vg.Length) {
	d := drawing{c, height, font.NewCache(liberation.Collection())}
	d.rect(0, 0, pageWidth, height, color.White)
	y := vg.Length(margin + titleSize)
	d.text(margin, y, titleSize, p.Title)
	y = d.legend(p, y+line)
	y = p.trackers(d, y+line)
	p.bars(d, y+line)
}

func (d drawing) rect(x, y, w, h vg.Length, fill color.Color) {
	var path vg.Path
	top := d.height - y
	path.Move(vg.Point{X: x, Y: top})
	path.Line(vg.Point{X: x + w, Y: top})
	path.Line(vg.Point{X: x + w, Y: top - h})
	path.Line(vg.Point{X: x, Y: top - h})
	path.Close()
	d.canvas.SetColor(fill)
	d.canvas.Fill(path)
}

func (d drawing) text(x, y, size vg.Length, s string) vg.Length {
	face := d.cache.Lookup(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	d.canvas.SetColor(color.Black)
	d.canvas.FillString(face, vg.Point{X: x, Y: d.height - y}, s)
	return face.Width(s)
}

// The colours are distinguishable with a red-green colour vision deficiency.
var colors = [kinds]color.NRGBA{
	Clean:   {0xee, 0xee, 0xee, 0xff},
	Dirty:   {0xe6, 0x9f, 0x00, 0xff},
	Slab:    {0x00, 0x72, 0xb2, 0xff},
	Object:  {0x00, 0x9e, 0x73, 0xff},
	Kept:    {0xf0, 0xe4, 0x42, 0xff},
	Large:   {0x56, 0x56, 0x8c, 0xff},
	Damaged: {0xff, 0x00, 0x00, 0xff},
}

// colorOf shades slabs from pale to full by their live share.
func colorOf(c Cell) color.NRGBA {
	if c.Kind != Slab {
		return colors[c.Kind]
	}
	full := colors[Slab]
	mix := func(from, to uint8) uint8 { return uint8(float64(from) + c.Fill*(float64(to)-float64(from))) }
	return color.NRGBA{mix(0xcf, full.R), mix(0xe3, full.G), mix(0xf2, full.B), 0xff}
}

func (d drawing) legend(p Picture, y vg.Length) vg.Length {
	totals := p.Totals()
	x := vg.Length(margin)
	for kind, bytes := range totals {
		if bytes == 0 {
			continue
		}
		label := fmt.Sprintf("%s %s", Kind(kind), term.Bytes(bytes))
		if Kind(kind) == Slab {
			for _, fill := range []float64{0, 0.5, 1} {
				d.rect(x, y-textSize, textSize, textSize, colorOf(Cell{Slab, fill}))
				x += textSize
			}
			label += " (pale: empty)"
		} else {
			d.rect(x, y-textSize, textSize, textSize, colors[kind])
			x += textSize
		}
		x += 4 + d.text(x+4, y, textSize, label)*6/5 + margin // another font may be wider
		if x > pageWidth-300 {
			x, y = margin, y+line
		}
	}
	return y
}

// trackers draws a block each, addresses from left to right and from top to bottom.
func (p Picture) trackers(d drawing, y vg.Length) vg.Length {
	g := p.grid()
	for i, t := range p.Trackers {
		x := margin + vg.Length(i%g.columns)*(16*g.cell+gap)
		top := y + vg.Length(i/g.columns)*(8*g.cell+gap)
		if len(p.Trackers) > detail {
			p.stacked(d, x, top, 16*g.cell, 8*g.cell, t)
			continue
		}
		drawCells(d, x, top, g.cell, t.Cells)
	}
	return y + vg.Length(g.rows)*(8*g.cell+gap)
}

// drawCells draws rows of 16 granules, on a ground of the commonest colour; neighbours of one colour
// are one rectangle.
func drawCells(d drawing, x, y, size vg.Length, cells []Cell) {
	const row = 16
	ground := commonest(cells)
	d.rect(x, y, row*size, vg.Length((len(cells)+row-1)/row)*size, ground)
	for from := 0; from < len(cells); {
		to := from + 1
		for to < len(cells) && to%row != 0 && colorOf(cells[to]) == colorOf(cells[from]) {
			to++
		}
		if colorOf(cells[from]) == ground {
			from = to
			continue
		}
		d.rect(x+vg.Length(from%row)*size, y+vg.Length(from/row)*size, vg.Length(to-from)*size, size, colorOf(cells[from]))
		from = to
	}
}

func commonest(cells []Cell) color.NRGBA {
	counts := map[color.NRGBA]int{}
	var best color.NRGBA
	for _, c := range cells {
		k := colorOf(c)
		if counts[k]++; counts[k] > counts[best] {
			best = k
		}
	}
	return best
}

// stacked draws a tracker as a bar of its kinds.
func (p Picture) stacked(d drawing, x, y, w, h vg.Length, t Tracker) {
	var counts [kinds]int
	var fill float64
	for _, c := range t.Cells {
		counts[c.Kind]++
		if c.Kind == Slab {
			fill += c.Fill
		}
	}
	for kind, n := range counts {
		part := w * vg.Length(n) / vg.Length(max(1, len(t.Cells)))
		if n == 0 {
			continue
		}
		d.rect(x, y, part, h, colorOf(Cell{Kind(kind), fill / float64(max(1, counts[Slab]))}))
		x += part
	}
}

// bars draws a bar for each class: live, cached and free objects, and pages that are not resident.
func (p Picture) bars(d drawing, y vg.Length) {
	var most uint64 = 1
	classes := p.shown()
	for _, c := range classes {
		most = max(most, c.Bytes)
	}
	d.text(margin, y, textSize, "Slabs by object size in bytes: live, cached, free, and (grey) not resident")
	for _, c := range classes {
		y += barRow
		d.text(margin, y, textSize, c.label())
		x := vg.Length(margin + labels)
		scale := vg.Length(pageWidth-3*margin-labels-80) / vg.Length(most)
		for _, part := range []struct {
			bytes uint64
			fill  color.Color
		}{{c.Live, colors[Slab]}, {c.Cached, colors[Kept]}, {c.Free(), colorOf(Cell{Slab, 0})}, {c.Clean, colors[Clean]}} {
			w := vg.Length(part.bytes) * scale
			d.rect(x, y-textSize+1, w, textSize, part.fill)
			x += w
		}
		d.text(x+4, y, textSize, term.Bytes(c.Bytes))
	}
}
