package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// The layout of a plan, as in bench/programs/replay_plan.h.
const (
	planMagic       = "granplan"
	planVersion     = 1
	planHeaderBytes = 24
	threadBytes     = 24
	operationBytes  = 24
	planTick        = 100 * time.Nanosecond
)

// The kinds of operations.
const (
	kindAllocate = iota
	kindZeroed
	kindFree
	kindReallocate
	kindStart
)

type operation struct {
	size      uint64
	slot      uint32
	turn      uint32
	delay     uint32
	kind      uint8
	alignment uint8 // its logarithm
	written   uint16
}

// remoteReserve is how many slots that other threads emptied a thread leaves alone. A slot is used again when its last
// object is freed, for which the thread would wait.
const remoteReserve = 1024

// A slot holds one object at a time.
type slot struct {
	owner uint32 // the thread that allocates into it
	turn  uint32
}

// A thread of the plan.
type thread struct {
	begin      time.Duration
	last       time.Duration
	operations uint64
	// empty slots of this thread, by who freed their last object
	own, remote []uint32
	// while writing
	offset int64
	buffer []byte
}

// A planner turns events into operations. It runs twice: first it counts, then it writes.
type planner struct {
	out     io.WriterAt // nil while it counts
	threads []*thread
	index   map[uint32]uint32 // of threads, by their number in the trace
	slots   []slot
	slotOf  []uint32          // by place of the object
	last    uint32            // thread of the last event
	written map[uint64]uint64 // bytes of an object that were written, plus one, where known
	err     error
}

// WritePlan writes the plan of a trace, and returns the number of operations.
func WritePlan(out io.WriterAt, t *Trace) (uint64, error) {
	counted := newPlanner(nil, nil)
	counted.run(t)
	if len(counted.threads) == 0 {
		return 0, nothingIn(t, "replay")
	}
	p := newPlanner(out, counted.threads)
	p.written = counted.written
	total := p.head(counted)
	p.run(t)
	for i := range p.threads {
		p.flush(uint32(i))
	}
	return total, p.err
}

// nothingIn says why a trace that has been read has no event.
func nothingIn(t *Trace, what string) error {
	if len(t.Findings.Damage) > 0 {
		return fmt.Errorf("the trace holds no event to %s: %s", what, t.Findings.Damage[0])
	}
	return fmt.Errorf("the trace holds no event to %s: the program made no call while it was recorded", what)
}

func newPlanner(out io.WriterAt, counted []*thread) *planner {
	p := &planner{out: out, index: map[uint32]uint32{}, written: map[uint64]uint64{}}
	offset := int64(planHeaderBytes + threadBytes*len(counted))
	for _, c := range counted {
		p.threads = append(p.threads, &thread{offset: offset})
		offset += int64(c.operations) * operationBytes
	}
	return p
}

// head writes the header and the table of threads.
func (p *planner) head(counted *planner) (total uint64) {
	head := binary.LittleEndian.AppendUint32([]byte(planMagic), planVersion)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(counted.threads)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(counted.slots)))
	for i, c := range counted.threads {
		head = binary.LittleEndian.AppendUint64(head, uint64(p.threads[i].offset))
		head = binary.LittleEndian.AppendUint64(head, c.operations)
		head = binary.LittleEndian.AppendUint64(head, uint64(c.begin/planTick))
		total += c.operations
	}
	p.write(head, 0)
	return total
}

func (p *planner) write(data []byte, offset int64) {
	if _, err := p.out.WriteAt(data, offset); err != nil && p.err == nil {
		p.err = fmt.Errorf("write the plan: %w", err)
	}
}

func (p *planner) run(t *Trace) {
	for e := range t.Events() {
		p.event(e)
		if p.err != nil {
			return
		}
	}
}

// threadOf returns the index of an event's thread. A new one is started by the thread of the event before.
func (p *planner) threadOf(e Event) uint32 {
	i, known := p.index[e.Thread]
	if known {
		return i
	}
	i = uint32(len(p.index))
	p.index[e.Thread] = i
	if int(i) == len(p.threads) {
		p.threads = append(p.threads, &thread{})
	}
	p.threads[i].begin, p.threads[i].last = e.Time, e.Time
	if i > 0 {
		p.emit(p.last, e.Time, operation{kind: kindStart, slot: i})
	}
	return i
}

func (p *planner) event(e Event) {
	i := p.threadOf(e)
	op := operation{size: e.Size, alignment: uint8(bits.TrailingZeros64(max(1, e.Align)))}
	switch e.Kind {
	case Free:
		op.kind, op.size, op.slot = kindFree, 0, p.slotOf[e.Place]
		p.empty(i, op.slot)
	case Realloc:
		op.kind, op.slot = kindReallocate, p.slotOf[e.Place]
	case Zeroed:
		op.kind, op.slot = kindZeroed, p.emptySlot(i)
	default:
		op.kind, op.slot = kindAllocate, p.emptySlot(i)
	}
	if e.Ends() {
		note(p.written, e.Old)
	}
	if e.Begins() {
		op.written = share(p.written[e.Object], e.Size)
		for int(e.Place) >= len(p.slotOf) {
			p.slotOf = append(p.slotOf, 0)
		}
		p.slotOf[e.Place] = op.slot
	}
	op.turn = p.slots[op.slot].turn
	p.slots[op.slot].turn++
	p.emit(i, e.Time, op)
	p.last = i
}

// note keeps what the end of an object says about it, for the next reading of the trace.
func note(written map[uint64]uint64, old Object) {
	if old.Written != 0 {
		written[old.Number] = old.Written
	}
}

// writtenIn is how much of each object of a trace was written, plus one, where known.
func writtenIn(t *Trace) map[uint64]uint64 {
	written := map[uint64]uint64{}
	if t.Header.Written {
		for e := range t.BareEvents() {
			if e.Ends() {
				note(written, e.Old)
			}
		}
	}
	return written
}

// share is the written part of an object in units of 1/65534, plus one; 0: unknown.
func share(written, size uint64) uint16 {
	if written == 0 || size == 0 {
		return 0
	}
	const parts = math.MaxUint16 - 1
	return uint16(math.Ceil(float64(min(written-1, size))/float64(size)*parts)) + 1
}

// empty gives a slot back to the thread that allocates into it.
func (p *planner) empty(by, number uint32) {
	owner := p.threads[p.slots[number].owner]
	if p.slots[number].owner == by {
		owner.own = append(owner.own, number)
	} else {
		owner.remote = append(owner.remote, number)
	}
}

func (p *planner) emptySlot(i uint32) uint32 {
	t := p.threads[i]
	if n := len(t.own); n > 0 {
		number := t.own[n-1]
		t.own = t.own[:n-1]
		return number
	}
	if len(t.remote) > remoteReserve {
		number := t.remote[0]
		t.remote = t.remote[1:]
		return number
	}
	if len(p.slots) == math.MaxUint32 {
		p.err = errors.New("the trace has more live objects than a plan can hold")
		return 0
	}
	p.slots = append(p.slots, slot{owner: i})
	return uint32(len(p.slots) - 1)
}

func (p *planner) emit(i uint32, at time.Duration, op operation) {
	t := p.threads[i]
	at = max(at, t.last)
	op.delay = uint32(min(uint64(at/planTick-t.last/planTick), math.MaxUint32))
	t.last = at
	t.operations++
	if p.out == nil {
		return
	}
	t.buffer = binary.LittleEndian.AppendUint64(t.buffer, op.size)
	t.buffer = binary.LittleEndian.AppendUint32(t.buffer, op.slot)
	t.buffer = binary.LittleEndian.AppendUint32(t.buffer, op.turn)
	t.buffer = binary.LittleEndian.AppendUint32(t.buffer, op.delay)
	t.buffer = append(t.buffer, op.kind, op.alignment)
	t.buffer = binary.LittleEndian.AppendUint16(t.buffer, op.written)
	if len(t.buffer) >= 64<<10 {
		p.flush(i)
	}
}

func (p *planner) flush(i uint32) {
	t := p.threads[i]
	p.write(t.buffer, t.offset)
	t.offset += int64(len(t.buffer))
	t.buffer = t.buffer[:0]
}
