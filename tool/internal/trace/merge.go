package trace

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// slack is how many ticks the events of one thread may be ahead of those of another. The clock of a recording is in
// the order of the calls, apart from events in the same tick; processors other than x86 may read it one tick late.
const slack = 2

// A cursor reads the events of one thread.
type cursor struct {
	after    uint64 // earlier events, and those of this time, are incomplete
	thread   uint32
	segments []segment
	decoder  decoder
	head     record
	moving   *Object // of a realloc that has begun
	from     *place  // where it was
	waiting  bool    // for the event of another thread that must be before
}

// advance reads the next event into head; false at the end.
func (c *cursor) advance() bool {
	for {
		head, err := c.decoder.next()
		if err == nil && head.kind != recordEnd { // errors were found when the chunk was indexed
			if head.ticks <= c.after && c.after > 0 {
				continue
			}
			c.head = head
			return true
		}
		if len(c.segments) == 0 {
			return false
		}
		c.decoder = decoder{data: c.segments[0].data, ticks: c.segments[0].ticks}
		c.segments = c.segments[1:]
	}
}

// cursors is a heap by the time of the next event.
type cursors []*cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].head.ticks, h[j].head.ticks), cmp.Compare(h[i].thread, h[j].thread)) < 0
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(c any)   { *h = append(*h, c.(*cursor)) }
func (h *cursors) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}

// A place is an address at which objects were. It has at most one, apart from events of the same time.
type place struct {
	objects []Object
	// the last free, and the frees whose objects are still to come
	freed   uint64
	freedBy uint32
	early   []*cursor
}

// A merge puts the events of all threads into one order in which each address is allocated and freed in turn.
//
// Events of the same time may be in an order that has no continuation: a thread frees and allocates an address, another
// one then frees it, but the second free was taken first. The first free then has no object. It is kept as early and ends
// the object that is allocated next, so that each object still has one life. The same holds for allocations.
type merge struct {
	found   *Findings
	yield   func(Event) bool
	clock   func(uint64) time.Duration
	ready   cursors
	waiting []*cursor            // in the order of their events' time
	waiters map[uint64][]*cursor // by address
	places  map[uint64]*place    // by address
	objects uint64
	live    places
	now     time.Duration // of the last event: times do not fall
	stopped bool
	stacks  map[uint32]uint32 // the event's number of a stack by the recorded one
}

func newMerge(r *recording, found *Findings, yield func(Event) bool) *merge {
	m := &merge{found: found, yield: yield, clock: r.header.window().clock(), waiters: map[uint64][]*cursor{}, places: map[uint64]*place{}, stacks: r.numbers}
	for thread, segments := range r.threads {
		if c := (&cursor{after: r.header.Overwritten, thread: thread, segments: segments}); c.advance() {
			m.ready = append(m.ready, c)
		}
	}
	heap.Init(&m.ready)
	return m
}

func (m *merge) run() {
	for !m.stopped {
		if late := m.late(); late != nil {
			m.take(late)
			continue
		}
		if len(m.ready) == 0 {
			m.countEarly()
			return
		}
		c := heap.Pop(&m.ready).(*cursor)
		if m.fits(c.head) {
			m.take(c)
			continue
		}
		c.waiting = true
		m.waiting = append(m.waiting, c)
		m.waiters[c.head.address] = append(m.waiters[c.head.address], c)
	}
}

// late returns a thread that waits for an event that does not come: rather one whose event may have been taken in the
// wrong order than the first one.
func (m *merge) late() *cursor {
	m.waiting = slices.DeleteFunc(m.waiting, func(c *cursor) bool { return !c.waiting })
	if len(m.waiting) == 0 || len(m.ready) > 0 && m.ready[0].head.ticks <= m.waiting[0].head.ticks+slack {
		return nil
	}
	c := m.waiting[max(0, slices.IndexFunc(m.waiting, m.isSwapped))]
	m.waiters[c.head.address] = slices.DeleteFunc(m.waiters[c.head.address], func(o *cursor) bool { return o == c })
	c.waiting = false
	return c
}

// isSwapped reports whether another thread's event at the address, of the same time, may have been taken too early.
func (m *merge) isSwapped(c *cursor) bool {
	at := m.place(c.head.address)
	if n := len(at.objects); n > 0 {
		o := at.objects[n-1]
		return o.Thread != c.thread && o.Born >= m.clock(c.head.ticks-min(c.head.ticks, slack))
	}
	return at.freedBy != c.thread && near(at.freed, c.head.ticks)
}

// fits reports whether the event can be next: an object is freed after it was allocated, and before its address is
// allocated again.
func (m *merge) fits(r record) bool {
	if r.address == 0 {
		return true
	}
	at := m.places[r.address]
	live := at != nil && len(at.objects) > 0
	return live == (r.kind == recordFreed || r.kind == recordMoving)
}

// take makes the thread's next event the next of all.
func (m *merge) take(c *cursor) {
	address := c.head.address
	m.apply(c)
	if c.advance() {
		heap.Push(&m.ready, c)
	} else {
		m.endMove(c)
	}
	for _, waiter := range m.waiters[address] {
		waiter.waiting = false
		heap.Push(&m.ready, waiter)
	}
	delete(m.waiters, address)
}

func (m *merge) apply(c *cursor) {
	r := c.head
	if r.kind == recordMoved {
		m.moved(c)
		return
	}
	m.endMove(c)
	switch r.kind {
	case recordFreed:
		if old, ok := m.end(c); ok {
			m.free(c, old)
		}
	case recordMoving:
		if old, ok := m.end(c); ok {
			c.moving, c.from = &old, m.place(r.address)
		}
	case recordZeroed:
		m.begin(c, Event{Kind: Zeroed})
	default:
		m.begin(c, Event{Kind: Alloc})
	}
}

func (m *merge) place(address uint64) *place {
	at := m.places[address]
	if at == nil {
		at = &place{}
		m.places[address] = at
	}
	return at
}

// moved ends a realloc. Without its first half, which a sample may leave out, it is an allocation.
func (m *merge) moved(c *cursor) {
	old := c.moving
	c.moving = nil
	switch {
	case c.head.address == 0 && old != nil: // it failed, and the object stays
		c.from.objects = append(c.from.objects, *old)
	case c.head.address == 0:
	case old != nil:
		m.begin(c, Event{Kind: Realloc, Old: *old})
	default:
		m.begin(c, Event{Kind: Alloc})
	}
}

// endMove frees the object of a realloc whose second half a sample left out.
func (m *merge) endMove(c *cursor) {
	if old := c.moving; old != nil {
		c.moving = nil
		m.free(c, *old)
	}
}

func (m *merge) free(c *cursor, old Object) {
	m.time(c)
	m.freed(c.thread, old)
}

func (m *merge) freed(by uint32, old Object) {
	m.emitAt(by, Event{Kind: Free, Object: old.Number, Size: old.Size, Align: 1, Place: old.Place, Old: old})
	m.live.give(old.Place)
}

// end takes the object of a free from its place.
func (m *merge) end(c *cursor) (old Object, ok bool) {
	at := m.place(c.head.address)
	if len(at.objects) == 0 {
		if m.isSwapped(c) {
			at.early = append(at.early, c)
		} else {
			m.found.UnknownFrees++
		}
		return old, false
	}
	// Of several, the thread's own: it allocated and freed in the time of the other's allocation.
	i := max(0, slices.IndexFunc(at.objects, func(o Object) bool { return o.Thread == c.thread }))
	old = at.objects[i]
	at.objects = slices.Delete(at.objects, i, i+1)
	at.freed, at.freedBy = c.head.ticks, c.thread
	old.Written = c.head.written
	return old, true
}

// near reports whether two times may be those of events in either order.
func near(a, b uint64) bool { return max(a, b)-min(a, b) <= slack }

func (m *merge) begin(c *cursor, e Event) {
	r, at := c.head, m.place(c.head.address)
	if n := len(at.objects); n > 0 && !m.isSwapped(c) {
		m.found.MissingFrees++
		m.free(c, at.objects[n-1])
		at.objects = at.objects[:n-1]
	}
	e.Object, e.Size, e.Align, e.Stack = m.objects, r.size, r.align, m.stacks[r.stack]
	m.objects++
	if e.Place = e.Old.Place; e.Kind != Realloc {
		e.Place = m.live.take()
	}
	o := Object{Number: e.Object, Size: e.Size, Born: m.time(c), Thread: c.thread, Stack: e.Stack, Place: e.Place}
	m.emit(c, e)
	if len(at.early) == 0 {
		at.objects = append(at.objects, o)
		return
	}
	by := at.early[0]
	at.early = at.early[1:]
	if !near(at.freed, r.ticks) { // it freed an object that is not in the trace
		m.found.UnknownFrees++
		at.objects = append(at.objects, o)
		return
	}
	m.freed(by.thread, o)
}

// countEarly counts the frees whose allocations are missing.
func (m *merge) countEarly() {
	for _, at := range m.places {
		m.found.UnknownFrees += uint64(len(at.early))
	}
}

// time is that of the thread's next event, or of the last one of all threads if that is later.
func (m *merge) time(c *cursor) time.Duration {
	m.now = max(m.now, m.clock(c.head.ticks))
	return m.now
}

func (m *merge) emit(c *cursor, e Event) {
	m.time(c)
	m.emitAt(c.thread, e)
}

func (m *merge) emitAt(thread uint32, e Event) {
	e.Time, e.Thread = m.now, thread
	m.stopped = m.stopped || !m.yield(e)
}
