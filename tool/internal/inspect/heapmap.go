package inspect

import (
	"math/bits"
)

// A HeapMap describes the contents of a heap by address. The target is not stopped while it is read. If
// Consistent is false, a structure changed between two readings, or the process was stopped inside the
// allocator: Damage may then name objects in transit. If it is true, each line of Damage is a fault.
type HeapMap struct {
	OSPage  uint64 // bytes of a page of the system
	Granule uint64 // bytes of the grain of spans

	// The ranges of the allocator's memory.
	Chunks   []Range // address space for objects, in trackers of 2 MiB
	Metadata []Range // structures
	PageMap  []Range // leaves of the map from addresses to slabs
	Static   []Range // the library's own variables: heap, page map's root

	Trackers   []Tracker // by address
	Slabs      []Slab    // by address
	Medium     []Block   // objects that are a span each, by address, in use or cached
	Large      []Block   // blocks of whole trackers, by address
	Arenas     []Arena   // heaps of the program's own, by index; their content is not read
	Consistent bool      // nothing changed while it was read
	Damage     []string  // a message for each structure that contradicts another
}

// A TrackerState is the use of a tracker.
type TrackerState string

// The states of a tracker.
const (
	TrackerFree      TrackerState = "free"      // no granule in use
	TrackerSpans     TrackerState = "spans"     // cut into slabs and medium objects
	TrackerLargeHead TrackerState = "large"     // begins a large block
	TrackerLargeBody TrackerState = "body"      // continues one
	TrackerTransit   TrackerState = "transit"   // the system works on its pages
	TrackerAbandoned TrackerState = "abandoned" // its addresses may be another mapping's
	TrackerDamaged   TrackerState = "damaged"
)

// A Tracker is 2 MiB of the heap.
type Tracker struct {
	Address     uint64
	State       TrackerState
	Used, Dirty int      // granules
	UsedBits    []uint64 // a bit for each granule
	DirtyBits   []uint64 // free granules that still hold pages
	HugeAllowed bool     // whether the kernel may back it with one page
}

// A Slab is a span cut into objects of one class.
type Slab struct {
	Address    uint64
	Bytes      uint64
	Class      int // index into Snapshot.Classes, plus one
	ObjectSize uint64
	Objects    int
	Free       int      // in the slab
	Cached     int      // free, but in a cache or the depot
	FreeBits   []uint64 // one bit for each object
	CachedBits []uint64 // one bit for each object
	CleanPages uint64   // a bit for each OS page that holds nothing
}

// Live is the number of live objects.
func (s Slab) Live() int { return s.Objects - s.Free - s.Cached }

// Holds is true where the program holds object i.
func (s Slab) Holds(i int) bool { return !bit(s.FreeBits, i) && !bit(s.CachedBits, i) }

// LiveIn is the number of live objects among [from, to).
func (s Slab) LiveIn(from, to int) (live uint64) {
	for i := from; i < to; {
		word, low := i/64, i%64
		high := min(64, low+to-i)
		free := uint64(0)
		if word < len(s.FreeBits) && word < len(s.CachedBits) {
			free = s.FreeBits[word] | s.CachedBits[word]
		}
		mask := ^uint64(0) >> (64 - (high - low)) << low
		live += uint64(bits.OnesCount64(^free & mask))
		i += high - low
	}
	return live
}

// CleanBytes is how many of its bytes hold nothing.
func (s Slab) CleanBytes(osPage uint64) (bytes uint64) {
	for page := range min(s.Bytes/osPage, 64) {
		bytes += s.CleanPages >> page & 1 * osPage
	}
	return bytes
}

// Occupied counts the live objects on a page of the slab, and the bytes of the page that they leave idle.
func (s Slab) Occupied(osPage, page uint64) (live, idle uint64) {
	if page < 64 && s.CleanPages>>page&1 != 0 {
		return 0, 0 // holds no memory
	}
	from, to := page*osPage, (page+1)*osPage
	first, last := from/s.ObjectSize, min(uint64(s.Objects), (to+s.ObjectSize-1)/s.ObjectSize)
	if first >= last {
		return 0, osPage
	}
	live = s.LiveIn(int(first), int(last))
	used := live * s.ObjectSize
	if s.Holds(int(first)) {
		used -= from - first*s.ObjectSize // on the page before
	}
	if end := last * s.ObjectSize; end > to && s.Holds(int(last-1)) {
		used -= end - to // on the page behind
	}
	return live, osPage - used
}

// A Block is one object that is not in a slab.
type Block struct {
	Address   uint64
	Size      uint64 // bytes that may be used; the figures count large blocks in granules
	Requested uint64 // requested bytes, as far as known; large blocks only
	Cached    bool   // free, but in a cache
}

// An Object is one live object or block.
type Object struct {
	Address, Size uint64
}

// Walk calls visit for each live object, slabs first, by address; it stops when visit returns false.
func (h *HeapMap) Walk(visit func(Object) bool) {
	for _, s := range h.Slabs {
		for i := range s.Objects {
			if !s.Holds(i) {
				continue
			}
			if !visit(Object{s.Address + uint64(i)*s.ObjectSize, s.ObjectSize}) {
				return
			}
		}
	}
	for _, blocks := range [][]Block{h.Medium, h.Large} {
		for _, b := range blocks {
			if !b.Cached && !visit(Object{b.Address, b.Size}) {
				return
			}
		}
	}
}

func bit(words []uint64, i int) bool {
	return i/64 < len(words) && words[i/64]>>(i%64)&1 != 0
}

func setBit(words []uint64, i int) { words[i/64] |= 1 << (i % 64) }
