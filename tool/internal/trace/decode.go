package trace

import (
	"encoding/binary"
	"errors"
)

// A record is a recorded event: its object is an address.
type record struct {
	kind    uint8
	ticks   uint64
	size    uint64
	align   uint64
	address uint64
	thread  uint32 // of otherThread
	stack   uint32 // of an allocation; 0: unknown
	written uint64 // bytes of the object that ends, plus one; 0: unknown
}

var errDamaged = errors.New("no event")

// A decoder reads the events of one chunk.
type decoder struct {
	data    []byte // the rest of it
	ticks   uint64
	address uint64
	stack   uint32              // of the next allocation
	written uint64              // of the next object that ends, plus one
	define  map[uint32][]uint64 // where stacks are defined; nil: nowhere
}

// Bounds of a stack of a recording, and of the written KiB of an object.
const (
	maxFrames   = 256
	mostWritten = 1 << 50
)

func (d *decoder) number() (uint64, error) {
	n, length := binary.Uvarint(d.data)
	if length <= 0 {
		return 0, errDamaged
	}
	d.data = d.data[length:]
	return n, nil
}

// next returns the next event; its kind is recordEnd at the end of the chunk, recordOther if another thread goes on.
func (d *decoder) next() (record, error) {
	for len(d.data) > 0 && d.data[0]&(1<<kindBits-1) == recordOther && d.data[0]>>kindBits != otherThread {
		if err := d.more(); err != nil {
			return record{}, err
		}
	}
	if len(d.data) == 0 || d.data[0] == 0 {
		return record{}, nil
	}
	first := d.data[0]
	d.data = d.data[1:]
	r := record{kind: first & (1<<kindBits - 1), align: 1}
	if r.kind == recordEnd {
		return r, errDamaged
	}
	if r.kind == recordOther {
		return d.otherThread(r)
	}
	delta := uint64(first >> kindBits)
	var err error
	if delta == longTime {
		if delta, err = d.number(); err != nil {
			return r, err
		}
	}
	d.ticks += delta
	r.ticks = d.ticks
	if err := d.request(&r); err != nil {
		return r, err
	}
	return r, d.addressOf(&r)
}

// more reads what belongs to the next event, or the definition of a stack.
func (d *decoder) more() error {
	what := d.data[0] >> kindBits
	d.data = d.data[1:]
	number, err := d.number()
	if what == otherWritten && err == nil && number < mostWritten {
		d.written = number<<10 + 1
		return nil
	}
	if err != nil || number == 0 || number > 1<<32-1 {
		return errDamaged
	}
	switch what {
	case otherStack:
		d.stack = uint32(number)
		return nil
	case otherDefinesStack:
		return d.definition(uint32(number))
	}
	return errDamaged
}

func (d *decoder) definition(number uint32) error {
	count, err := d.number()
	if err != nil || count > maxFrames {
		return errDamaged
	}
	frames, address := make([]uint64, count), uint64(0)
	for i := range frames {
		n, err := d.number()
		if err != nil {
			return err
		}
		address += n>>1 ^ -(n & 1)
		frames[i] = address
	}
	if d.define != nil {
		d.define[number] = frames
	}
	return nil
}

func (d *decoder) otherThread(r record) (record, error) {
	thread, err := d.number()
	if err != nil || thread > 1<<32-1 {
		return r, errDamaged
	}
	r.thread = uint32(thread)
	r.ticks, err = d.number()
	d.ticks, d.address = r.ticks, 0
	return r, err
}

// request reads size and alignment, of the kinds that have them.
func (d *decoder) request(r *record) (err error) {
	if r.kind != recordFreed && r.kind != recordMoving {
		r.stack, d.stack = d.stack, 0
	} else {
		r.written, d.written = d.written, 0
	}
	switch r.kind {
	case recordAllocated, recordZeroed, recordMoved:
		r.size, err = d.number()
	case recordAligned:
		if r.size, err = d.number(); err != nil {
			return err
		}
		if len(d.data) == 0 || d.data[0] > 63 {
			return errDamaged
		}
		r.align = 1 << d.data[0]
		d.data = d.data[1:]
	}
	return err
}

// addressOf reads the distance to the last address, in units of 8 bytes, its sign in the lowest bit.
func (d *decoder) addressOf(r *record) error {
	n, err := d.number()
	d.address += n>>1 ^ -(n & 1)
	r.address = d.address << 3
	return err
}
