package heapmap

import (
	"fmt"
	"io"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// shades from nearly empty to full.
var shades = []rune("▁▂▃▄▅▆▇█")

func shade(fill float64) rune {
	return shades[min(len(shades)-1, int(fill*float64(len(shades))))]
}

// mark is the character that shows a tracker.
func (p Picture) mark(t Tracker) rune {
	switch {
	case t.State == inspect.TrackerDamaged:
		return '!'
	case t.State == inspect.TrackerLargeHead:
		return '['
	case t.State == inspect.TrackerLargeBody:
		return '='
	case t.Live > 0:
		return shade(t.Fill(p.Granule))
	case t.Dirty > 0:
		return '~'
	case used(t):
		return '_'
	}
	return '.'
}

func used(t Tracker) bool {
	for _, c := range t.Cells {
		if c.Kind != Clean && c.Kind != Dirty {
			return true
		}
	}
	return false
}

// Write prints the picture in lines of at most width columns.
func (p Picture) Write(w io.Writer, width int) {
	size := uint64(2 << 20)
	fmt.Fprintf(w, "%s: %s of address space in trackers of 2 MiB\n", p.Title, term.Bytes(uint64(len(p.Trackers))*size))
	for kind, bytes := range p.Totals() {
		if bytes > 0 {
			fmt.Fprintf(w, "  %-26s %10s\n", Kind(kind), term.Bytes(bytes))
		}
	}
	fmt.Fprintf(w, "\nA character a tracker: %s share that lives, [== large block, _ nothing lives, ~ free but dirty, . free\n", string(shades))
	p.lines(w, perLine(width))
	if len(p.Classes) > 0 {
		fmt.Fprintln(w, "\nSlabs by class; FULL: how many slabs are up to 10 %, 20 % ... full")
		p.classTable().Write(w, width)
	}
	for i, sentence := range p.Damage {
		if i == 0 {
			fmt.Fprintln(w, "\nDamaged:")
		}
		fmt.Fprintf(w, "  %s\n", sentence)
	}
}

// perLine is the largest power of two of trackers that fits beside an address.
func perLine(width int) int {
	const address = 16
	n := 8
	for 2*n <= max(width, 80)-address {
		n *= 2
	}
	return n
}

// lines begins a line at every multiple of n trackers, and where addresses are not contiguous.
func (p Picture) lines(w io.Writer, n int) {
	const size = 2 << 20
	var b strings.Builder
	for i, t := range p.Trackers {
		apart := i > 0 && p.Trackers[i-1].Address+size != t.Address
		if i == 0 || apart || t.Address/size%uint64(n) == 0 {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%-14s  ", fmt.Sprintf("%#x", t.Address))
		}
		b.WriteRune(p.mark(t))
	}
	if len(p.Trackers) > 0 {
		fmt.Fprintln(w, b.String())
	}
}

func (p Picture) classTable() term.Table {
	t := term.Table{Header: []string{" SIZE", " SLABS", " BYTES", " LIVE", " CACHED", " FREE", " EMPTY PAGES", "FULL"}}
	for _, c := range p.shown() {
		share := func(n uint64) string { return term.Percent(float64(n), float64(c.Bytes)) }
		t.Rows = append(t.Rows, []string{c.label(), term.Count(uint64(c.Slabs)), term.Bytes(c.Bytes),
			share(c.Live), share(c.Cached), share(c.Free()), share(c.Clean), histogram(c.Tenths)})
	}
	return t
}

// histogram draws ten columns; what is wholly full counts to the last.
func histogram(tenths [11]int) string {
	tenths[9] += tenths[10]
	most := 1
	for _, n := range tenths[:10] {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range tenths[:10] {
		if n == 0 {
			b.WriteByte('.')
		} else {
			b.WriteRune(shade(float64(n) / float64(most+1)))
		}
	}
	return b.String()
}
