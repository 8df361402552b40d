package inspect

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// readEach reads pieces; where one cannot be read, it is named as damage and left zero.
func (w *walker) readEach(what string, spans []span) error {
	err := w.t.memory.read(spans)
	if !errors.Is(err, errUnmapped) {
		return err
	}
	for _, s := range spans {
		err := w.t.memory.read([]span{s})
		if errors.Is(err, errUnmapped) {
			w.damage("the descriptor of a %s would be at %#x, which is not mapped", what, s.address)
			clear(s.to)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) tracker(address uint64, s wanted) Tracker {
	n := func(name string, width uint32) uint64 {
		v, _ := number(s.bytes, w.l.constant(name), width)
		return v
	}
	t := Tracker{Address: address, State: TrackerDamaged}
	t.HugeAllowed = n("tracker.huge_allowed", 1) != 0
	t.Used, t.Dirty = int(n("tracker.used_count", 2)), int(n("tracker.dirty_count", 2))
	words := int((w.l.constant("tracker")/w.h.Granule + 63) / 64)
	t.UsedBits = wordsAt(s.bytes, w.l.constant("tracker.used"), words)
	t.DirtyBits = wordsAt(s.bytes, w.l.constant("tracker.dirty"), words)
	if base := n("tracker.base", 8); base != address {
		w.damage("the tracker of %#x says it is that of %#x", address, base)
		return t
	}
	if count(t.UsedBits) != t.Used || count(t.DirtyBits) != t.Dirty {
		w.damage("the tracker of %#x counts %d granules used and %d dirty, its bits say %d and %d", address, t.Used, t.Dirty, count(t.UsedBits), count(t.DirtyBits))
	}
	switch n("tracker.state", 1) {
	case w.l.constant("tracker.free"):
		t.State = TrackerFree
	case w.l.constant("tracker.spans"):
		t.State = TrackerSpans
	case w.l.constant("tracker.large_body"):
		t.State = TrackerLargeBody
	case w.l.constant("tracker.transit"):
		t.State = TrackerTransit
	case w.l.constant("tracker.abandoned"):
		t.State = TrackerAbandoned
	case w.l.constant("tracker.large_head"):
		t.State = TrackerLargeHead
		size := n("tracker.size", 8)
		if size > n("tracker.trackers", 4)*w.l.constant("tracker") {
			w.damage("the large block at %#x says it has %d bytes, which is more than its trackers hold", address, size)
		}
		w.h.Large = append(w.h.Large, Block{Address: address, Size: size, Requested: n("tracker.requested", 8)})
	default:
		w.damage("the tracker of %#x is in a state that does not exist", address)
	}
	return t
}

func wordsAt(b []byte, offset uint64, words int) []uint64 {
	out := make([]uint64, words)
	for i := range out {
		out[i], _ = number(b, offset+8*uint64(i), 8)
	}
	return out
}

func count(words []uint64) (ones int) {
	for _, w := range words {
		ones += bits.OnesCount64(w)
	}
	return ones
}

// A found is where a slab is described, and its class by the page map; 0 where that does not tell.
type found struct {
	address uint64
	class   int
}

// bitWords is how many words of bits the slabs of a class have; 0 for a class that has none.
func (w *walker) bitWords(class int) int {
	if class >= len(w.l.classes) {
		return 0
	}
	return (int(min(w.l.classes[class].slabObjects, 1<<16)) + 63) / 64
}

// slabs reads the descriptors of slabs in `within`.
func (w *walker) slabs(all []found, within Range) error {
	head := w.l.constant("slab.bits")
	if head > 1<<12 {
		return failure(ErrDamaged, "the library's description of itself is damaged: slabs begin with %d bytes", head)
	}
	pieces := make([]wanted, len(all))
	words := 0
	for i, f := range all {
		pieces[i] = wanted{address: f.address, size: int(head) + 8*w.bitWords(f.class)}
		words += w.bitWords(f.class)
	}
	if err := w.gather("slab", pieces); err != nil {
		return err
	}
	room := make([]uint64, 2*words)
	cut := func(n int) []uint64 {
		if n > len(room) {
			return make([]uint64, n)
		}
		part := room[:n:n]
		room = room[n:]
		return part
	}
	w.h.Slabs = slices.Grow(w.h.Slabs, len(all))
	at := w.slabOffsets()
	for i, piece := range pieces {
		slab, ok := w.slab(piece, at, within)
		if !ok {
			continue
		}
		if slab.Class != all[i].class && all[i].class != 0 {
			w.damage("the slab described at %#x is of class %d, the page map says %d", piece.address, slab.Class, all[i].class)
			continue
		}
		n := w.bitWords(slab.Class)
		bits := piece.bytes[head:]
		if len(bits) < 8*n {
			bits = make([]byte, 8*n)
			if err := w.readEach("slab", []span{{piece.address + head, bits}}); err != nil {
				return err
			}
		}
		slab.FreeBits, slab.CachedBits = cut(n), cut(n)
		for k := range slab.FreeBits {
			slab.FreeBits[k] = binary.LittleEndian.Uint64(bits[8*k:])
		}
		if got := count(slab.FreeBits); got != slab.Free {
			w.damage("the slab at %#x counts %d free objects, its bits say %d", slab.Address, slab.Free, got)
			slab.Free = min(got, slab.Objects)
		}
		w.h.Slabs = append(w.h.Slabs, slab)
	}
	return nil
}

// slabOffsets are the offsets of the members of a slab's descriptor.
type slabOffsets struct{ base, clean, free, objects, class, small uint64 }

func (w *walker) slabOffsets() slabOffsets {
	c := w.l.constant
	return slabOffsets{c("slab.base"), c("slab.clean"), c("slab.free"), c("slab.objects"), c("slab.class"), c("classes.small")}
}

func (w *walker) slab(s wanted, at slabOffsets, within Range) (Slab, bool) {
	n := func(offset uint64, width uint32) uint64 {
		v, _ := number(s.bytes, offset, width)
		return v
	}
	class, base := n(at.class, 1), n(at.base, 8)
	objects, free := n(at.objects, 2), n(at.free, 2)
	if class == 0 || class >= at.small || class >= uint64(len(w.l.classes)) {
		w.damage("the slab described at %#x is of class %d, which does not exist", s.address, class)
		return Slab{}, false
	}
	row := w.l.classes[class]
	guard, _ := w.c.first("central.guard") // of the shared heap; slabs of arenas have none
	fits := objects == row.slabObjects || objects == row.objectsBefore(guard)
	if base < within.Start || base >= within.End || base%w.h.Granule != 0 || !fits || free > objects {
		w.damage("the slab described at %#x says it has %d of %d objects free at %#x", s.address, free, objects, base)
		return Slab{}, false
	}
	return Slab{
		Address: base, Bytes: row.slabBytes, Class: int(class), ObjectSize: row.size,
		Objects: int(objects), Free: int(free), CleanPages: n(at.clean, 8),
	}, true
}
