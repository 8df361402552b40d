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
	thread  uint32 // of recordThread
}

var errDamaged = errors.New("no event")

// A decoder reads the events of one chunk.
type decoder struct {
	data    []byte // the rest of it
	ticks   uint64
	address uint64
}

func (d *decoder) number() (uint64, error) {
	n, length := binary.Uvarint(d.data)
	if length <= 0 {
		return 0, errDamaged
	}
	d.data = d.data[length:]
	return n, nil
}

// next returns the next event; its kind is recordEnd at the end of the chunk.
func (d *decoder) next() (record, error) {
	if len(d.data) == 0 || d.data[0] == 0 {
		return record{}, nil
	}
	first := d.data[0]
	d.data = d.data[1:]
	r := record{kind: first & (1<<kindBits - 1), align: 1}
	if r.kind == recordEnd {
		return r, errDamaged
	}
	if r.kind == recordThread {
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
