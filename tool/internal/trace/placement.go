package trace

import (
	"math"
	"math/bits"
	"time"
)

// pageBytes is the unit in which an allocator takes memory from the system.
const pageBytes = 4096

// never is the death of objects that live to the end.
const never = math.MaxUint64

// A region is address space for objects that end at about the same event.
type region struct {
	key   uint64
	next  uint64         // the first address that was never used
	live  uint64         // objects
	pages map[uint64]int // live objects by page
}

// A place of an object. Its region is known by the object's death.
type placed struct {
	region *region
	at     uint64
	size   uint64
}

// A placement puts each object, without moving it later, beside objects that end at about the same time. It knows when each will end, as no
// allocator can. A page is resident while a live object is on it. So some placement needs no more memory than this one.
type placement struct {
	fine     int // higher: regions hold deaths that are closer to one another
	deaths   []uint64
	regions  map[uint64]*region
	live     map[uint64]placed // by object
	events   uint64
	resident uint64 // pages
}

func newPlacement(fine int, deaths []uint64) *placement {
	return &placement{fine: fine, deaths: deaths, regions: map[uint64]*region{}, live: map[uint64]placed{}}
}

// deathsOf is the number of the event that ends each object, by object.
func deathsOf(t *Trace) []uint64 {
	var deaths []uint64
	number := uint64(0)
	for e := range t.Events() {
		if e.Ends() && e.Old.Number < uint64(len(deaths)) {
			deaths[e.Old.Number] = number
		}
		if e.Begins() {
			for uint64(len(deaths)) <= e.Object {
				deaths = append(deaths, never)
			}
		}
		number++
	}
	return deaths
}

func (p *placement) event(e Event) {
	if e.Ends() {
		p.end(e.Old.Number)
	}
	if e.Begins() {
		p.begin(e)
	}
	p.events++
}

func (p *placement) begin(e Event) {
	r := p.regionOf(p.deaths[e.Object])
	size, align := max(1, e.Size), max(e.Align, 8)
	if size >= 16 {
		align = max(align, 16)
	}
	at := (r.next + align - 1) &^ (align - 1)
	r.next = at + size
	r.live++
	p.live[e.Object] = placed{r, at, size}
	p.count(r, at, size, 1)
}

func (p *placement) end(object uint64) {
	o, ok := p.live[object]
	if !ok {
		return
	}
	delete(p.live, object)
	p.count(o.region, o.at, o.size, -1)
	if o.region.live--; o.region.live == 0 {
		delete(p.regions, o.region.key)
	}
}

// count changes the number of live objects on the pages of an object. Only its first and last page may hold others.
func (p *placement) count(r *region, at, size uint64, by int) {
	first, last := at/pageBytes, (at+size-1)/pageBytes
	p.page(r, first, by)
	if last != first {
		p.page(r, last, by)
		p.resident += (last - first - 1) * uint64(by)
	}
}

func (p *placement) page(r *region, page uint64, by int) {
	before := r.pages[page]
	switch after := before + by; {
	case after == 0:
		delete(r.pages, page)
		p.resident--
	default:
		r.pages[page] = after
		if before == 0 {
			p.resident++
		}
	}
}

// regionOf finds the region for a time of death. Regions of later deaths are longer: the memory that two deaths in one
// region waste is in proportion to the time between them.
func (p *placement) regionOf(death uint64) *region {
	key := uint64(never)
	if death != never {
		shift := min(max(0, bits.Len64(death-p.events)-p.fine), 55)
		key = death>>shift<<8 | uint64(shift)
	}
	r := p.regions[key]
	if r == nil {
		r = &region{key: key, pages: map[uint64]int{}}
		p.regions[key] = r
	}
	return r
}

// A Course is memory over time.
type Course struct {
	Peak uint64  `json:"peak"`
	Mean float64 `json:"mean"`
	End  uint64  `json:"end"`
	// Points are the peaks of equal intervals, for a plot.
	Points []uint64 `json:"points"`
	area   float64
	begun  bool
	last   time.Duration
	first  time.Duration
	step   time.Duration
}

// coursePoints is how many points a course has at most.
const coursePoints = 512

// add notes the bytes from a moment on.
func (c *Course) add(at time.Duration, bytes uint64) {
	if !c.begun {
		c.begun, c.first, c.last, c.step = true, at, at, time.Microsecond
	}
	c.area += float64(c.End) * float64(at-c.last)
	c.last, c.End = at, bytes
	c.Peak = max(c.Peak, bytes)
	for int((at-c.first)/c.step) >= coursePoints {
		c.halve()
	}
	i := int((at - c.first) / c.step)
	for len(c.Points) <= i {
		c.Points = append(c.Points, bytes)
	}
	c.Points[i] = max(c.Points[i], bytes)
}

// halve doubles the intervals.
func (c *Course) halve() {
	c.step *= 2
	for i := 0; i < len(c.Points); i += 2 {
		c.Points[i/2] = c.Points[i]
		if i+1 < len(c.Points) {
			c.Points[i/2] = max(c.Points[i], c.Points[i+1])
		}
	}
	c.Points = c.Points[:(len(c.Points)+1)/2]
}

func (c *Course) finish() {
	c.Mean = float64(c.End)
	if c.last > c.first {
		c.Mean = c.area / float64(c.last-c.first)
	}
}
