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
	thread   uint32
	segments []segment
	decoder  decoder
	head     record
	moving   *Object // of a realloc that has begun
	from     uint64  // its address
	waiting  bool    // for the event of another thread that must be before
}

// advance reads the next event into head; false at the end.
func (c *cursor) advance() bool {
	for {
		head, err := c.decoder.next()
		if err == nil && head.kind != recordEnd { // errors were found when the chunk was indexed
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

// A merge puts the events of all threads into one order in which each address is allocated and freed in turn.
type merge struct {
	found   *Findings
	yield   func(Event) bool
	clock   func(uint64) time.Duration
	ready   cursors
	waiting []*cursor            // in the order of their events' time
	waiters map[uint64][]*cursor // by address
	live    map[uint64]Object    // by address
	objects uint64
	now     time.Duration // of the last event: times do not fall
	stopped bool
}

func newMerge(r *recording, found *Findings, yield func(Event) bool) *merge {
	m := &merge{found: found, yield: yield, clock: r.header.clock(), waiters: map[uint64][]*cursor{}, live: map[uint64]Object{}}
	for thread, segments := range r.threads {
		if c := (&cursor{thread: thread, segments: segments}); c.advance() {
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

// late returns a thread that waits for an event that does not come.
func (m *merge) late() *cursor {
	for len(m.waiting) > 0 && !m.waiting[0].waiting {
		m.waiting = m.waiting[1:]
	}
	if len(m.waiting) == 0 || len(m.ready) > 0 && m.ready[0].head.ticks <= m.waiting[0].head.ticks+slack {
		return nil
	}
	c := m.waiting[0]
	m.waiters[c.head.address] = slices.DeleteFunc(m.waiters[c.head.address], func(o *cursor) bool { return o == c })
	c.waiting = false
	return c
}

// fits reports whether the event can be next: an object is freed after it was allocated, and before its address is
// allocated again.
func (m *merge) fits(r record) bool {
	if r.address == 0 {
		return true
	}
	_, live := m.live[r.address]
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
		if old, ok := m.end(r.address); ok {
			m.emit(c, Event{Kind: Free, Object: old.Number, Size: old.Size, Align: 1, Old: old})
		}
	case recordMoving:
		if old, ok := m.end(r.address); ok {
			c.moving, c.from = &old, r.address
		}
	case recordZeroed:
		m.begin(c, Event{Kind: Zeroed})
	default:
		m.begin(c, Event{Kind: Alloc})
	}
}

// moved ends a realloc. Without its first half, which a sample may leave out, it is an allocation.
func (m *merge) moved(c *cursor) {
	old := c.moving
	c.moving = nil
	switch {
	case c.head.address == 0 && old != nil: // it failed, and the object stays
		m.live[c.from] = *old
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
		m.emit(c, Event{Kind: Free, Object: old.Number, Size: old.Size, Align: 1, Old: *old})
	}
}

func (m *merge) end(address uint64) (Object, bool) {
	old, ok := m.live[address]
	if !ok {
		m.found.UnknownFrees++
	}
	delete(m.live, address)
	return old, ok
}

func (m *merge) begin(c *cursor, e Event) {
	r := c.head
	if old, ok := m.live[r.address]; ok {
		m.found.MissingFrees++
		m.emit(c, Event{Kind: Free, Object: old.Number, Size: old.Size, Align: 1, Old: old})
	}
	e.Object, e.Size, e.Align = m.objects, r.size, r.align
	m.objects++
	m.live[r.address] = Object{Number: e.Object, Size: e.Size, Born: m.time(c), Thread: c.thread}
	m.emit(c, e)
}

// time is that of the thread's next event, or of the last one of all threads if that is later.
func (m *merge) time(c *cursor) time.Duration {
	m.now = max(m.now, m.clock(c.head.ticks))
	return m.now
}

func (m *merge) emit(c *cursor, e Event) {
	e.Time, e.Thread = m.time(c), c.thread
	m.stopped = m.stopped || !m.yield(e)
}
