package inspect

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Bounds on a reading of a heap, so that a damaged heap cannot cause unbounded work.
const (
	maxChunks   = 1 << 16
	maxTrackers = 1 << 22 // 8 TiB
	maxDamage   = 100     // messages
	maxPiece    = 1 << 26 // bytes of one read
)

// A walker reads the structures of a heap into a HeapMap.
type walker struct {
	t      *Target
	l      *layout
	c      *capture
	h      *HeapMap
	leaves map[uint64]uint64 // addresses of leaves, by number; 0 for none
	medium map[uint64]int    // index in h.Medium, by address
}

// HeapMap reads the contents of the heap by address. Its time and memory are proportional to the heap:
// about 3 MiB and some milliseconds for each GiB.
func (t *Target) HeapMap() (*HeapMap, error) {
	if t.Published {
		return nil, failure(ErrNoRights, "process %d publishes its figures but not its heap: run the command as root, or with the capability CAP_SYS_PTRACE", t.PID)
	}
	for _, name := range walkConstants {
		if _, ok := t.layout.constants[name]; !ok {
			return nil, failure(ErrVersion, "the library in the process does not tell %s: use the granary command that came with it", name)
		}
	}
	for _, name := range walkCells {
		if _, ok := t.layout.cellNames[name]; !ok {
			return nil, failure(ErrVersion, "the library in the process does not tell %s: use the granary command that came with it", name)
		}
	}
	c, err := t.capture()
	if err != nil {
		return nil, err
	}
	w := &walker{t: t, l: t.layout, c: c, h: &HeapMap{}, leaves: map[uint64]uint64{}, medium: map[uint64]int{}}
	if err := w.walk(); err != nil {
		return nil, t.explain(err)
	}
	after, err := c.again()
	if err != nil {
		return nil, err
	}
	w.h.Consistent = c.same(after) && c.inside() == 0
	return w.h, nil
}

var walkConstants = []string{
	"leaf", "leaf.bytes", "leaf.classes", "leaf.slabs", "leaf.trackers",
	"chunk.bytes", "chunk.next", "chunk.base", "chunk.trackers",
	"metadata_chunk.bytes", "metadata_chunk.next", "metadata_chunk.size",
	"tracker.bytes", "tracker.base", "tracker.used", "tracker.dirty", "tracker.used_count", "tracker.dirty_count",
	"tracker.state", "tracker.huge_allowed", "tracker.size", "tracker.requested", "tracker.trackers",
	"tracker.free", "tracker.spans", "tracker.large_head", "tracker.large_body", "tracker.transit", "tracker.abandoned",
	"slab.bytes", "slab.base", "slab.clean", "slab.free", "slab.objects", "slab.class", "slab.bits",
	"magazine.bytes", "magazine.next", "magazine.count", "magazine.objects",
	"page_map.bytes", "cache.filler", "classes.sampled",
}

var walkCells = []string{"page_map.root", "page_map.no_leaf", "pages.chunks", "metadata.chunks", "depot.full"}

func (w *walker) damage(format string, args ...any) {
	if len(w.h.Damage) == maxDamage {
		w.h.Damage = append(w.h.Damage, "more is damaged than is listed here")
	}
	if len(w.h.Damage) < maxDamage {
		w.h.Damage = append(w.h.Damage, fmt.Sprintf(format, args...))
	}
}

func (w *walker) walk() error {
	page, _ := w.c.first("pages.os_page")
	w.h.OSPage, w.h.Granule = page, w.l.constant("granule")
	if page < 1<<12 || page > 1<<16 || page&(page-1) != 0 {
		return failure(ErrDamaged, "the heap says that a page of the system has %d bytes: it was overwritten", page)
	}
	w.statics()
	if err := w.metadata(); err != nil {
		return err
	}
	if err := w.chunks(); err != nil {
		return err
	}
	space := uint64(0)
	for _, chunk := range w.h.Chunks {
		space += chunk.End - chunk.Start
	}
	w.h.Slabs = make([]Slab, 0, min(w.c.total("central.slabs"), space/w.h.Granule))
	w.h.Trackers = make([]Tracker, 0, space/w.l.constant("tracker"))
	for _, chunk := range w.h.Chunks {
		if err := w.chunk(chunk); err != nil {
			return err
		}
	}
	slices.SortFunc(w.h.Slabs, func(a, b Slab) int { return cmp.Compare(a.Address, b.Address) })
	if err := w.cached(); err != nil {
		return err
	}
	if err := w.arenas(); err != nil {
		return err
	}
	for number, leaf := range w.leaves {
		if leaf != 0 && number < 1<<16 {
			w.h.PageMap = append(w.h.PageMap, Range{leaf, leaf + w.l.constant("leaf.bytes")})
		}
	}
	slices.SortFunc(w.h.PageMap, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	return nil
}

func (w *walker) statics() {
	bases := w.t.mark.bases
	w.h.Static = []Range{
		{bases[baseLayers], bases[baseLayers] + w.l.constant("heap.bytes")},
		{bases[baseUpkeep], bases[baseUpkeep] + w.l.constant("upkeep.bytes")},
		{bases[basePageMap], bases[basePageMap] + w.l.constant("page_map.bytes")},
	}
}

// list follows pointers from `first`, at most `most` of them, and never in a circle.
func (w *walker) list(what string, first, bytes, next uint64, most int, visit func(address uint64, node []byte) bool) error {
	seen := map[uint64]bool{}
	for address := first; address != 0; {
		if seen[address] || len(seen) == most {
			w.damage("the list of %s leads in a circle at %#x", what, address)
			return nil
		}
		seen[address] = true
		node, err := readAt(w.t.memory, address, int(bytes))
		if errors.Is(err, errUnmapped) {
			w.damage("the list of %s leads to %#x, which is not mapped", what, address)
			return nil
		}
		if err != nil {
			return err
		}
		if !visit(address, node) {
			return nil
		}
		address, _ = number(node, next, 8)
	}
	return nil
}

func (w *walker) metadata() error {
	first, _ := w.c.first("metadata.chunks")
	return w.list("metadata", first, w.l.constant("metadata_chunk.bytes"), w.l.constant("metadata_chunk.next"), maxChunks, func(address uint64, node []byte) bool {
		size, _ := number(node, w.l.constant("metadata_chunk.size"), 8)
		if size == 0 || size > 1<<40 {
			w.damage("metadata at %#x says it has %d bytes", address, size)
			return false
		}
		w.h.Metadata = append(w.h.Metadata, Range{address, address + size})
		return true
	})
}

func (w *walker) chunks() error {
	first, _ := w.c.first("pages.chunks")
	trackers := uint64(0)
	err := w.list("address space", first, w.l.constant("chunk.bytes"), w.l.constant("chunk.next"), maxChunks, func(address uint64, node []byte) bool {
		base, _ := number(node, w.l.constant("chunk.base"), 8)
		count, _ := number(node, w.l.constant("chunk.trackers"), 8)
		if base%w.l.constant("tracker") != 0 || count == 0 || count > maxTrackers-trackers || base>>48 != 0 {
			w.damage("the chunk described at %#x says it has %d trackers at %#x", address, count, base)
			return true
		}
		trackers += count
		w.h.Chunks = append(w.h.Chunks, Range{base, base + count*w.l.constant("tracker")})
		return true
	})
	slices.SortFunc(w.h.Chunks, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(w.h.Chunks); i++ {
		if w.h.Chunks[i].Start < w.h.Chunks[i-1].End {
			w.damage("two chunks of address space overlap at %#x", w.h.Chunks[i].Start)
			w.h.Chunks = slices.Delete(w.h.Chunks, i, i+1)
			i--
		}
	}
	return err
}

// leaf is the address of the part of the page map for an address; 0 if it has none.
func (w *walker) leaf(address uint64) (uint64, error) {
	index := address / w.l.constant("leaf")
	if leaf, ok := w.leaves[index]; ok {
		return leaf, nil
	}
	root, zero := w.l.cell("page_map.root"), w.l.cell("page_map.no_leaf")
	if index >= uint64(root.width)/8 {
		return 0, nil
	}
	base := w.t.mark.bases[basePageMap]
	row, err := readWord(w.t.memory, base+root.offset+8*index)
	if err != nil {
		return 0, err
	}
	leaf := uint64(0)
	if row != 0 {
		leaf = base + zero.offset + row
	}
	w.leaves[index] = leaf
	return leaf, nil
}

// column reads the numbers that the page map holds for [from, to), `each` bytes of address space each.
func (w *walker) column(name string, width, each, from, to uint64) ([]byte, error) {
	out := make([]byte, 0, min((to-from)/each*width, maxPiece))
	for at := from; at < to; {
		end := min(to, (at/w.l.constant("leaf")+1)*w.l.constant("leaf"))
		leaf, err := w.leaf(at)
		if err != nil {
			return nil, err
		}
		bytes := (end - at) / each * width
		if bytes > maxPiece {
			return nil, failure(ErrDamaged, "the heap gives one of its ranges a size of %d bytes: the heap was overwritten", end-at)
		}
		if leaf == 0 {
			return nil, w.missing(at)
		}
		out = slices.Grow(out, int(bytes))
		part := out[len(out) : len(out)+int(bytes)]
		if err := w.t.memory.read([]span{{leaf + w.l.constant(name) + at%w.l.constant("leaf")/each*width, part}}); err != nil {
			return nil, err
		}
		out = out[:len(out)+int(bytes)]
		at = end
	}
	return out, nil
}

// errMissing says that the page map does not cover a range of the heap.
var errMissing = errors.New("no rows")

func (w *walker) missing(address uint64) error {
	w.damage("the page map has no rows for %#x", address)
	return errMissing
}

// group is how much of a chunk is read at a time.
const group = 1 << 30

func (w *walker) chunk(chunk Range) error {
	for from := chunk.Start; from < chunk.End; from += group {
		if err := w.stretch(from, min(from+group, chunk.End)); err != nil && !errors.Is(err, errMissing) {
			return err
		}
	}
	return nil
}

// stretch reads the trackers of [from, to) and their contents.
func (w *walker) stretch(from, to uint64) error {
	size := w.l.constant("tracker")
	pointers, err := w.column("leaf.trackers", 8, size, from, to)
	if err != nil {
		return err
	}
	trackers := make([]wanted, len(pointers)/8)
	for i := range trackers {
		trackers[i].address = binary.LittleEndian.Uint64(pointers[8*i:])
		if trackers[i].address != 0 {
			trackers[i].size = int(min(w.l.constant("tracker.bytes"), 1<<12))
		}
	}
	if err := w.gather("tracker", trackers); err != nil {
		return err
	}
	classes, err := w.column("leaf.classes", 1, w.h.Granule, from, to)
	if err != nil {
		return err
	}
	slabs, err := w.column("leaf.slabs", 8, w.h.Granule, from, to)
	if err != nil {
		return err
	}
	perTracker := int(size / w.h.Granule)
	sampled, most := int(w.l.constant("classes.sampled")), w.l.constant("classes.max")
	small := int(w.l.constant("classes.small"))
	var slabsFound []found
	w.h.Trackers = slices.Grow(w.h.Trackers, len(trackers))
	for i, s := range trackers {
		tracker := w.tracker(from+uint64(i)*size, s)
		w.h.Trackers = append(w.h.Trackers, tracker)
		if tracker.State != TrackerSpans {
			continue
		}
		for g := range perTracker {
			k := i*perTracker + g
			address := from + uint64(k)*w.h.Granule
			class, slab := int(classes[k]), binary.LittleEndian.Uint64(slabs[8*k:])
			if class == sampled && slab < most {
				class, slab = int(slab), 0 // a sampled medium object: its class is in the column of slabs
			}
			switch {
			case slab != 0:
				if class == sampled {
					class = 0 // a sampled object hides it here
				}
				if n := len(slabsFound); n == 0 || slabsFound[n-1].address != slab {
					slabsFound = append(slabsFound, found{slab, class})
				} else if slabsFound[n-1].class == 0 {
					slabsFound[n-1].class = class
				}
			case class >= small && class < len(w.l.classes):
				w.medium[address] = len(w.h.Medium)
				w.h.Medium = append(w.h.Medium, Block{Address: address, Size: w.l.classes[class].size})
			case class != 0:
				w.damage("the page map says that class %d is at %#x, where there is no slab", class, address)
			}
		}
	}
	return w.slabs(slabsFound, Range{from, to})
}
