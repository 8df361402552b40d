package inspect

import (
	"bytes"
	"errors"
	"maps"
	"slices"
)

// A capture is the memory that the figures come from, read in few calls.
type capture struct {
	t      *Target
	bases  [knownBases][]byte // from offset `from` on
	from   [knownBases]uint64
	caches []cacheImage
	spans  []span
}

type cacheImage struct {
	CacheInfo
	address uint64
	bytes   []byte
}

// capture reads the figures' memory once.
func (t *Target) capture() (*capture, error) {
	if p, ok := t.memory.(*published); ok {
		if err := p.refresh(); err != nil {
			return nil, err
		}
	}
	c := &capture{t: t}
	c.plan()
	if err := t.memory.read(c.spans); err != nil {
		return nil, t.explain(err)
	}
	if v, _ := c.first("heap.ready"); v&1 == 0 {
		return nil, failure(ErrNotReady, "the process has not allocated yet: try again in a moment")
	}
	before := len(c.spans)
	c.planCaches()
	if err := t.memory.read(c.spans[before:]); err != nil {
		return nil, t.explain(err)
	}
	return c, nil
}

func (t *Target) explain(err error) error {
	if errors.Is(err, errUnmapped) {
		if c, ok := t.memory.(*core); ok && c.missing > 0 {
			return c.cutOff()
		}
		return failure(ErrDamaged, "the heap cannot be read, it leads to an address where there is no memory (%v): it was overwritten, or this is a partial core file", err)
	}
	return err
}

// plan finds which part of each base holds cells. The roots of large tables are not figures.
func (c *capture) plan() {
	const most = 1 << 20
	l := c.t.layout
	var end [knownBases]uint64
	for _, cell := range l.cells {
		base := cell.base
		if int(base) >= min(knownBases, len(c.t.mark.bases)) || (cell.scale == 0 && base != baseLayers && base != baseOptions && base != baseUpkeep) {
			continue
		}
		if end[base] == 0 || cell.offset < c.from[base] {
			c.from[base] = cell.offset
		}
		end[base] = max(end[base], cell.end())
	}
	c.from[baseOptions] = 0
	for _, o := range l.options {
		end[baseOptions] = max(end[baseOptions], min(o.offset, most)+uint64(min(o.width, 8)))
	}
	for base := range end {
		if end[base] > c.from[base] && end[base]-c.from[base] <= most {
			c.bases[base] = make([]byte, end[base]-c.from[base])
			c.spans = append(c.spans, span{c.t.mark.bases[base] + c.from[base], c.bases[base]})
		}
	}
}

// maxCaches is more than there can be.
const maxCaches = 1 << 12

// planCaches adds the head of each cache: its lock, its capacity and the headers of its classes.
func (c *capture) planCaches() {
	l := c.t.layout
	head := l.constant("cache.words") + 8*l.constant("cache.headers")
	if head > 1<<14 {
		return
	}
	perCPU, _ := c.number("threads.owner")
	add := func(kind string, i int, address uint64) {
		if address == 0 || len(c.caches) == maxCaches {
			return
		}
		image := cacheImage{CacheInfo{Kind: kind, Index: i}, address, make([]byte, head)}
		c.caches = append(c.caches, image)
		c.spans = append(c.spans, span{address, image.bytes})
	}
	kind := "thread"
	if perCPU == l.constant("threads.by_cpu") {
		kind = "cpu"
	}
	c.each("front.caches", func(i int, address uint64) { add(kind, i, address) })
	c.each("front.shared", func(i int, address uint64) { add("shared", i, address) })
}

// each calls visit with every number of a cell; false if it was not captured.
func (c *capture) each(name string, visit func(i int, value uint64)) bool {
	i, ok := c.t.layout.cellNames[name]
	return ok && c.eachOf(c.t.layout.cells[i], visit)
}

func (c *capture) eachOf(cell cell, visit func(i int, value uint64)) bool {
	if cell.base >= knownBases || cell.offset < c.from[cell.base] {
		return false
	}
	for i := range cell.count {
		v, ok := number(c.bases[cell.base], cell.offset-c.from[cell.base]+uint64(i)*uint64(cell.stride), cell.width)
		if !ok {
			return false
		}
		visit(int(i), v)
	}
	return true
}

// values are all numbers of a cell, not scaled.
func (c *capture) values(name string) []uint64 {
	var out []uint64
	c.each(name, func(_ int, v uint64) { out = append(out, v) })
	return out
}

func (c *capture) first(name string) (value uint64, ok bool) {
	ok = c.each(name, func(i int, v uint64) {
		if i == 0 {
			value = v
		}
	})
	return value, ok
}

// number is a cell of one number; a cell outside the captured memory is read separately.
func (c *capture) number(name string) (uint64, error) {
	if v, ok := c.first(name); ok {
		return v, nil
	}
	if _, ok := c.t.layout.cellNames[name]; !ok {
		return 0, nil
	}
	return c.t.figure(name)
}

// sum returns the figure that a cell describes.
func (c *capture) sum(cell cell) (sum uint64, ok bool) {
	ok = c.eachOf(cell, func(_ int, v uint64) { sum += v * uint64(cell.scale) })
	return sum, ok
}

func (c *capture) total(name string) uint64 {
	sum, _ := c.sum(c.t.layout.cell(name))
	return sum
}

// again reads the same memory into a second capture.
func (c *capture) again() (*capture, error) {
	other := &capture{t: c.t, from: c.from, spans: make([]span, len(c.spans)), caches: slices.Clone(c.caches)}
	i := 0
	for base := range c.bases {
		if c.bases[base] == nil {
			continue
		}
		other.bases[base] = make([]byte, len(c.bases[base]))
		other.spans[i] = span{c.spans[i].address, other.bases[base]}
		i++
	}
	for k := range other.caches {
		other.caches[k].bytes = make([]byte, len(c.caches[k].bytes))
		other.spans[i+k] = span{c.spans[i+k].address, other.caches[k].bytes}
	}
	if err := c.t.memory.read(other.spans); err != nil {
		return nil, c.t.explain(err)
	}
	return other, nil
}

func (c *capture) same(other *capture) bool {
	return slices.EqualFunc(c.spans, other.spans, func(a, b span) bool { return bytes.Equal(a.to, b.to) })
}

// lockNames are the names of the locks among the cells.
func (l *layout) lockNames() []string {
	const held = ".held"
	var names []string
	for _, name := range slices.Sorted(maps.Keys(l.cellNames)) {
		if len(name) > len("lock.")+len(held) && name[:5] == "lock." && name[len(name)-len(held):] == held {
			names = append(names, name[5:len(name)-len(held)])
		}
	}
	return names
}
