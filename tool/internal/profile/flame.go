package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"maps"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/google/pprof/profile"
)

// A node of the flame graph: a function as called by those below it.
type node struct {
	name     string
	value    int64
	children map[string]*node
}

func (n *node) child(name string) *node {
	c := n.children[name]
	if c == nil {
		c = &node{name: name, children: map[string]*node{}}
		n.children[name] = c
	}
	return c
}

func (n *node) depth() int {
	deepest := 0
	for _, c := range n.children {
		deepest = max(deepest, c.depth())
	}
	return deepest + 1
}

func tree(p *profile.Profile, index int) *node {
	root := &node{name: "all", children: map[string]*node{}}
	for _, s := range p.Sample {
		v := s.Value[index]
		if v <= 0 {
			continue
		}
		n := root
		n.value += v
		for _, name := range slices.Backward(Names(s)) {
			n = n.child(name)
			n.value += v
		}
	}
	return root
}

// The measures of the picture, in pixels.
const (
	flameWidth = 1200
	flameRow   = 18
	flameTop   = 34
	flameLeast = 0.4 // narrower boxes are left out
	flameGlyph = 6.6 // width of a character
)

// WriteFlame draws a flame graph as SVG: callers above their callees, and as wide as their
// value. It needs no other program; a browser shows the whole name when the mouse rests on a box.
func WriteFlame(w io.Writer, p *profile.Profile, index int, title string) error {
	root := tree(p, index)
	height := flameTop + flameRow*root.depth() + 8
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace, monospace" font-size="11">`+"\n", flameWidth, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#fff"/><text x="8" y="21" font-size="14" fill="#222">%s</text>`+"\n", flameWidth, height, html.EscapeString(title))
	f := flame{out: out, total: root.value, unit: p.SampleType[index].Unit}
	if root.value > 0 {
		f.draw(root, 0, flameTop)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

type flame struct {
	out   io.Writer
	total int64
	unit  string
}

func (f flame) draw(n *node, left float64, top int) {
	width := float64(n.value) / float64(f.total) * flameWidth
	if width < flameLeast {
		return
	}
	share := term.Percent(float64(n.value), float64(f.total))
	fmt.Fprintf(f.out, `<g><title>%s: %s, %s</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" rx="2"/>`,
		html.EscapeString(n.name), amount(n.value, f.unit), share, left, top, max(0.2, width-0.6), flameRow-1, color(n.name))
	if room := int((width - 6) / flameGlyph); room >= 3 {
		label := []rune(n.name)
		if len(label) > room {
			label = append(label[:room-1], '…')
		} else if with := fmt.Sprintf("%s  %s", n.name, amount(n.value, f.unit)); len(with) <= room {
			label = []rune(with)
		}
		fmt.Fprintf(f.out, `<text x="%.1f" y="%d" fill="#222">%s</text>`, left+4, top+flameRow-5, html.EscapeString(string(label)))
	}
	fmt.Fprintln(f.out, "</g>")
	children := slices.SortedFunc(maps.Values(n.children), func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.name, b.name))
	})
	for _, c := range children {
		f.draw(c, left, top+flameRow)
		left += float64(c.value) / float64(f.total) * flameWidth
	}
}

// color is always the same for a name: grey for names that are no function, warm for functions.
func color(name string) string {
	if name == "all" || name[0] == '[' {
		return "#d5d7da"
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	n := h.Sum32()
	return fmt.Sprintf("hsl(%d,%d%%,%d%%)", 18+n%36, 72+n/36%18, 66+n/1024%12)
}
