package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A packed trace holds the events in their order over all threads, with numbers of objects in place of addresses. It is a
// header, then blocks of compressed events; a block without events ends it and has the totals.
const (
	packedMagic          = "grantrc\n"
	packedVersion        = 3 // with the written part of objects, and perhaps stacks
	versionWithStacks    = 2
	versionWithoutStacks = 1
	// magic, version and the length of the header's JSON
	prefixBytes = len(packedMagic) + 4 + 4
	// length, checksum and number of events of a block
	blockHeaderBytes = 12
	maxBlockBytes    = 4 << 20
)

// The kinds of packed events, in the low bits of their first byte.
const (
	packAlloc = iota
	packZeroed
	packAligned
	packFree
	packRealloc
	packThread
	packStack
	packWritten
)

// packedTick is the unit of times.
const packedTick = 100 * time.Nanosecond

type packed struct {
	header  Header
	blocks  []byte
	decoder *zstd.Decoder
}

func readPacked(data []byte) (*packed, error) {
	if len(data) < prefixBytes {
		return nil, errors.New("it is cut inside its header")
	}
	if version := binary.LittleEndian.Uint32(data[len(packedMagic):]); version == 0 || version > packedVersion {
		return nil, fmt.Errorf("it has version %d of the trace format, this command reads up to version %d; use a newer granary", version, packedVersion)
	}
	length := uint64(binary.LittleEndian.Uint32(data[len(packedMagic)+4:]))
	rest := data[prefixBytes:]
	if length > uint64(len(rest)) {
		return nil, errors.New("it is cut inside its header")
	}
	var h Header
	if err := json.Unmarshal(rest[:length], &h); err != nil {
		return nil, fmt.Errorf("its header is corrupted: %w", err)
	}
	if err := h.checkStacks(); err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxBlockBytes))
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}
	return &packed{header: h, blocks: rest[length:], decoder: decoder}, nil
}

// events yields those before the first damage.
func (p *packed) events(found *Findings, bare bool) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		u := unpacker{live: liveObjects{bare: bare}}
		rest := p.blocks
		for number := 1; ; number++ {
			b, after, err := cutBlock(rest)
			if err == nil && b.events == 0 {
				err = u.end(b.content, found)
				if err == nil {
					return
				}
			}
			if err == nil {
				err = p.unpack(&u, b, yield)
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				if u.events == 0 {
					found.damage("block %d %v; no event is before it", number, err)
				} else {
					found.damage("block %d %v; the %d events before it are good", number, err, u.events)
				}
				return
			}
			rest = after
		}
	}
}

// A block is a part of the trace whose checksum is right.
type block struct {
	content []byte
	events  uint32
}

// cutBlock returns the first block of data.
func cutBlock(data []byte) (b block, after []byte, err error) {
	if len(data) < blockHeaderBytes {
		return b, nil, errors.New("is missing: the trace is cut")
	}
	length, sum := uint64(binary.LittleEndian.Uint32(data)), binary.LittleEndian.Uint32(data[4:])
	b.events = binary.LittleEndian.Uint32(data[8:])
	rest := data[blockHeaderBytes:]
	if length > uint64(len(rest)) {
		return b, nil, errors.New("is cut")
	}
	b.content = rest[:length]
	if crc32.ChecksumIEEE(b.content) != sum {
		return b, nil, errors.New("is corrupted: its checksum differs")
	}
	return b, rest[length:], nil
}

func (p *packed) unpack(u *unpacker, b block, yield func(Event) bool) error {
	data, err := p.decoder.DecodeAll(b.content, []byte{})
	if err != nil {
		return fmt.Errorf("is corrupted: %w", err)
	}
	return u.block(data, yield)
}

// end reads the last block.
func (u *unpacker) end(content []byte, found *Findings) error {
	var end Packed
	if err := json.Unmarshal(content, &end); err != nil {
		return fmt.Errorf("is corrupted: %w", err)
	}
	if end.Events != u.events {
		return fmt.Errorf("says that there are %d events", end.Events)
	}
	*found = end.Findings
	return nil
}

var errStopped = errors.New("stopped by the reader")

// An unpacker holds the state that an event may refer to.
type unpacker struct {
	data    []byte
	event   Event // the last one
	thread  uint32
	stack   uint32 // of the next object
	written uint64 // of the next object that ends, plus one
	ticks   uint64
	events  uint64
	objects uint64
	live    liveObjects
}

func (u *unpacker) number() (uint64, error) {
	if len(u.data) > 0 && u.data[0] < 0x80 {
		n := uint64(u.data[0])
		u.data = u.data[1:]
		return n, nil
	}
	n, length := binary.Uvarint(u.data)
	if length <= 0 {
		return 0, errors.New("is corrupted: a number has no end")
	}
	u.data = u.data[length:]
	return n, nil
}

func (u *unpacker) block(data []byte, yield func(Event) bool) error {
	u.data = data
	for len(u.data) > 0 {
		isEvent, err := u.next()
		if err != nil {
			return err
		}
		if isEvent {
			u.events++
			if !yield(u.event) {
				return errStopped
			}
		}
	}
	return nil
}

// next reads an event, or what holds for the next ones.
func (u *unpacker) next() (isEvent bool, err error) {
	first := u.data[0]
	u.data = u.data[1:]
	kind, delta := first&(1<<kindBits-1), uint64(first>>kindBits)
	if delta == longTime {
		if delta, err = u.number(); err != nil {
			return false, err
		}
	}
	if kind == packThread || kind == packStack || kind == packWritten {
		return false, u.context(kind)
	}
	u.ticks += delta
	e := &u.event
	e.Time, e.Thread, e.Align, e.Stack = time.Duration(u.ticks)*packedTick, u.thread, 1, 0
	switch kind {
	case packFree:
		e.Kind = Free
		return true, u.free(e)
	case packRealloc:
		e.Kind = Realloc
		if err := u.old(e); err != nil {
			return false, err
		}
		e.Place = e.Old.Place
		return true, u.begin(e, false)
	case packAlloc, packAligned:
		e.Kind = Alloc
	case packZeroed:
		e.Kind = Zeroed
	default:
		return false, fmt.Errorf("is corrupted: there is no event of kind %d", kind)
	}
	e.Old, e.Place = Object{}, u.live.places.take()
	return true, u.begin(e, kind == packAligned)
}

// context reads what holds for the next events, or the next one.
func (u *unpacker) context(kind uint8) error {
	number, err := u.number()
	switch kind {
	case packThread:
		u.thread = uint32(number)
	case packStack:
		u.stack = uint32(number)
	default:
		u.written = number<<10 + 1
	}
	return err
}

func (u *unpacker) free(e *Event) error {
	if err := u.old(e); err != nil {
		return err
	}
	e.Object, e.Size, e.Place = e.Old.Number, e.Old.Size, e.Old.Place
	u.live.places.give(e.Place)
	return nil
}

// begin reads the object that begins.
func (u *unpacker) begin(e *Event, aligned bool) (err error) {
	if e.Size, err = u.number(); err != nil {
		return err
	}
	if aligned {
		if len(u.data) == 0 || u.data[0] > 63 {
			return errors.New("is corrupted: an alignment is none")
		}
		e.Align = 1 << u.data[0]
		u.data = u.data[1:]
	}
	e.Object = u.objects
	u.objects++
	e.Stack, u.stack = u.stack, 0
	u.live.add(e)
	return nil
}

// old reads which object ends, as its distance to the next one to begin.
func (u *unpacker) old(e *Event) error {
	distance, err := u.number()
	if err != nil {
		return err
	}
	if !u.live.take(u.objects-distance, &e.Old) {
		return errors.New("is corrupted: it frees an object that is not live")
	}
	e.Old.Written, u.written = u.written, 0
	return nil
}
