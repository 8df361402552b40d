package heap

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
	text := func(lead, paragraph string) { fmt.Fprintln(w, term.Wrap(lead, paragraph, width)) }
	text("", fmt.Sprintf("%s: %s of address space", p.Title, term.Bytes(uint64(len(p.Trackers))*regionBytes)))
	if p.Fragmentation > 0 {
		text("", fmt.Sprintf("Fragmentation ratio %.2f: %.2f bytes of memory for each live byte.", p.Fragmentation, p.Fragmentation))
	}
	for kind, bytes := range p.Totals() {
		if bytes > 0 {
			fmt.Fprintf(w, "  %-28s %10s\n", Kind(kind), term.Bytes(bytes))
		}
	}
	fmt.Fprintln(w)
	text("", fmt.Sprintf("Each character is a region of 2 MiB: %s for the share of live bytes from low to high, _ used but nothing live, "+
		"[== a block above 1 MiB, ~ free and dirty, . free", string(shades)))
	p.lines(w, perLine(width))
	if len(p.Classes) > 0 {
		fmt.Fprintln(w)
		text("", "Slabs by object size in bytes. FULL: slabs by tenths full")
		p.classTable().Write(w, width)
	}
	for i, message := range p.Damage {
		if i == 0 {
			fmt.Fprintln(w, "\nDamaged:")
		}
		text("  ", message)
	}
}

// regionBytes is the memory of a tracker.
const regionBytes = 2 << 20

// perLine is the largest power of two of regions that fits beside an address.
func perLine(width int) int {
	const address = 16
	n := 8
	for 2*n <= width-address {
		n *= 2
	}
	return n
}

// lines begins a line at every multiple of n regions, and where addresses are not contiguous.
func (p Picture) lines(w io.Writer, n int) {
	var b strings.Builder
	for i, t := range p.Trackers {
		apart := i > 0 && p.Trackers[i-1].Address+regionBytes != t.Address
		if i == 0 || apart || t.Address/regionBytes%uint64(n) == 0 {
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
	t := term.Table{Header: []string{" SIZE", " SLABS", " BYTES", " LIVE", " CACHED", " FREE", " NOT RESIDENT", "FULL"}, Spare: []int{4, 6}}
	for _, c := range p.shown() {
		share := func(n uint64) string { return term.Percent(float64(n), float64(c.Bytes)) }
		t.Rows = append(t.Rows, []string{c.label(), term.Count(uint64(c.Slabs)), term.Bytes(c.Bytes),
			share(c.Live), share(c.Cached), share(c.Free()), share(c.Clean), histogram(c.Tenths)})
	}
	return t
}

// histogram draws ten columns; full slabs are in the last.
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
