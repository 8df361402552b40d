package inspect

import (
	"errors"
	"math/bits"
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
			w.damage("a %s is said to be described at %#x, where there is no memory", what, s.address)
			clear(s.to)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) tracker(address uint64, s span) Tracker {
	n := func(name string, width uint32) uint64 {
		v, _ := number(s.to, w.l.constant(name), width)
		return v
	}
	t := Tracker{Address: address, State: TrackerDamaged}
	t.HugeAllowed = n("tracker.huge_allowed", 1) != 0
	t.Used, t.Dirty = int(n("tracker.used_count", 2)), int(n("tracker.dirty_count", 2))
	words := int((w.l.constant("tracker")/w.h.Granule + 63) / 64)
	t.UsedBits = wordsAt(s.to, w.l.constant("tracker.used"), words)
	t.DirtyBits = wordsAt(s.to, w.l.constant("tracker.dirty"), words)
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

// slabs reads descriptions of slabs that lie in `within`.
func (w *walker) slabs(addresses []uint64, within Range) error {
	head := w.l.constant("slab.bits")
	if head > 1<<12 {
		return failure(ErrDamaged, "the library's description of itself is damaged: slabs begin with %d bytes", head)
	}
	heads := make([]span, 0, len(addresses))
	for _, address := range addresses {
		heads = append(heads, span{address, make([]byte, head)})
	}
	if err := w.readEach("slab", heads); err != nil {
		return err
	}
	var bitmaps []span
	var slabs []Slab
	for _, s := range heads {
		slab, ok := w.slab(s, within)
		if !ok {
			continue
		}
		slabs = append(slabs, slab)
		bitmaps = append(bitmaps, span{s.address + head, make([]byte, 8*((slab.Objects+63)/64))})
	}
	if err := w.readEach("slab", bitmaps); err != nil {
		return err
	}
	for i, slab := range slabs {
		slab.FreeBits = wordsAt(bitmaps[i].to, 0, (slab.Objects+63)/64)
		slab.CachedBits = make([]uint64, len(slab.FreeBits))
		if got := count(slab.FreeBits); got != slab.Free {
			w.damage("the slab at %#x counts %d free objects, its bits say %d", slab.Address, slab.Free, got)
			slab.Free = min(got, slab.Objects)
		}
		w.h.Slabs = append(w.h.Slabs, slab)
	}
	return nil
}

func (w *walker) slab(s span, within Range) (Slab, bool) {
	n := func(name string, width uint32) uint64 {
		v, _ := number(s.to, w.l.constant(name), width)
		return v
	}
	class := n("slab.class", 1)
	base := n("slab.base", 8)
	if class == 0 || class >= w.l.constant("classes.small") || class >= uint64(len(w.l.classes)) {
		w.damage("the slab described at %#x is of class %d, which does not exist", s.address, class)
		return Slab{}, false
	}
	row := w.l.classes[class]
	if base < within.Start || base >= within.End || base%w.h.Granule != 0 || n("slab.objects", 2) != row.slabObjects || n("slab.free", 2) > row.slabObjects {
		w.damage("the slab described at %#x says it has %d of %d objects free at %#x", s.address, n("slab.free", 2), n("slab.objects", 2), base)
		return Slab{}, false
	}
	return Slab{
		Address: base, Bytes: row.slabBytes, Class: int(class), ObjectSize: row.size,
		Objects: int(row.slabObjects), Free: int(n("slab.free", 2)), CleanPages: n("slab.clean", 8),
	}, true
}
