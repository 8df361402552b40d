package why

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// Pages tells which parts of a range are in memory.
type Pages interface {
	Resident(start, end uint64, visit func(start, end uint64)) error
}

// A Residency is the number of resident bytes of each part of the heap. Each resident page is counted
// once, divided among the objects and structures on it.
type Residency struct {
	Live      uint64 // objects and blocks that the program holds
	Cached    uint64 // free objects in the caches and the depot
	SlabFree  uint64 // free objects in slabs, and ends of slabs
	Dirty     uint64 // free spans that still hold pages
	Clean     uint64 // pages that the allocator knows hold nothing: a huge page brought them in
	Structure uint64 // the allocator's own structures
	Arenas    uint64 // heaps of the program's own: their objects, and what is free in them
	// ArenasLive is the size of all objects in use in these, in memory or not.
	ArenasLive uint64
	// LiveBytes is the size of all live objects and blocks, in memory or not.
	LiveBytes uint64
	// ranges are all the heap's, ascending, with what of each is in memory.
	ranges []occupied
}

type occupied struct{ start, end, resident uint64 }

// Total is all of the heap that is in memory.
func (r Residency) Total() uint64 {
	return r.Live + r.Cached + r.SlabFree + r.Dirty + r.Clean + r.Structure + r.Arenas
}

// Measure finds the part of the heap that each resident page belongs to.
func Measure(h *inspect.HeapMap, pages Pages) (Residency, error) {
	m := &measure{h: h, pages: pages}
	for _, chunk := range h.Chunks {
		if err := m.chunk(chunk); err != nil {
			return m.r, err
		}
	}
	err := errors.Join(m.countAll(h.Metadata, &m.r.Structure), m.countAll(h.PageMap, &m.r.Structure), m.countAll(h.Static, &m.r.Structure))
	for _, a := range h.Arenas {
		m.r.ArenasLive += a.Live
		err = errors.Join(err, m.countAll(a.Memory, &m.r.Arenas), m.countAll(a.Structures, &m.r.Structure))
	}
	if err != nil {
		return m.r, err
	}
	sort.Slice(m.r.ranges, func(i, j int) bool { return m.r.ranges[i].start < m.r.ranges[j].start })
	return m.r, nil
}

type measure struct {
	h     *inspect.HeapMap
	pages Pages
	r     Residency

	// Of the chunk at hand: its start, and how many pages before each page are in memory.
	base   uint64
	before []uint32
	slab   int // the next one
	medium int
	large  int
}

// countAll adds what of the ranges is in memory to a sum.
func (m *measure) countAll(ranges []inspect.Range, sum *uint64) error {
	for _, r := range ranges {
		n, err := m.count(r)
		if err != nil {
			return err
		}
		*sum += n
	}
	return nil
}

// count is what of a range of structures is in memory. The ends of a range may share their pages with
// something else; then only the part inside is included.
func (m *measure) count(r inspect.Range) (resident uint64, err error) {
	err = m.pages.Resident(r.Start, r.End, func(start, end uint64) {
		resident += min(end, r.End) - max(start, r.Start)
	})
	m.r.ranges = append(m.r.ranges, occupied{r.Start, r.End, resident})
	return resident, err
}

func (m *measure) chunk(chunk inspect.Range) error {
	page := m.h.OSPage
	m.base = chunk.Start
	m.before = make([]uint32, (chunk.End-chunk.Start)/page+1)
	err := m.pages.Resident(chunk.Start, chunk.End, func(start, end uint64) {
		for at := start; at < end; at += page {
			m.before[(at-chunk.Start)/page+1] = 1
		}
	})
	if err != nil {
		return fmt.Errorf("find which pages of the heap are resident: %w", err)
	}
	for i := 1; i < len(m.before); i++ {
		m.before[i] += m.before[i-1]
	}
	m.r.ranges = append(m.r.ranges, occupied{chunk.Start, chunk.End, m.resident(chunk.Start, chunk.End)})
	accounted := m.r.objects()
	m.slabs(chunk)
	m.blocks(chunk)
	m.freeSpans(chunk)
	// What no structure claims: the ends of large blocks, and what changed while it was read.
	accounted = m.r.objects() - accounted
	if all := m.resident(chunk.Start, chunk.End); all > accounted {
		m.r.Clean += all - accounted
	}
	return nil
}

func (r Residency) objects() uint64 { return r.Live + r.Cached + r.SlabFree + r.Dirty + r.Clean }

// resident is how many bytes of whole pages in [start, end) of this chunk are in memory.
func (m *measure) resident(start, end uint64) uint64 {
	page := m.h.OSPage
	first, last := (start-m.base)/page, (end-m.base+page-1)/page
	last = min(last, uint64(len(m.before)-1))
	if first >= last {
		return 0
	}
	return uint64(m.before[last]-m.before[first]) * page
}

// part is how many bytes of [start, end) are in memory; the ends may be inside pages.
func (m *measure) part(start, end uint64) (bytes uint64) {
	page := m.h.OSPage
	for at := start; at < end; {
		next := min(end, at&^(page-1)+page)
		if m.resident(at, at+1) != 0 {
			bytes += next - at
		}
		at = next
	}
	return bytes
}

func (m *measure) slabs(chunk inspect.Range) {
	for ; m.slab < len(m.h.Slabs) && m.h.Slabs[m.slab].Address < chunk.End; m.slab++ {
		s := &m.h.Slabs[m.slab]
		m.r.LiveBytes += uint64(s.Live()) * s.ObjectSize
		resident := m.resident(s.Address, s.Address+s.Bytes)
		if resident == 0 {
			continue
		}
		if resident == s.Bytes && s.CleanPages == 0 {
			live, cached := uint64(s.Live())*s.ObjectSize, uint64(s.Cached)*s.ObjectSize
			m.r.Live += live
			m.r.Cached += cached
			m.r.SlabFree += s.Bytes - live - cached
			continue
		}
		m.sparse(s, resident)
	}
}

// sparse adds the objects of a slab that is only partly resident.
func (m *measure) sparse(s *inspect.Slab, resident uint64) {
	var live, cached, clean uint64
	for i := range s.Objects {
		if has(s.FreeBits, i) {
			continue
		}
		at := s.Address + uint64(i)*s.ObjectSize
		if n := m.part(at, at+s.ObjectSize); has(s.CachedBits, i) {
			cached += n
		} else {
			live += n
		}
	}
	for pages := s.CleanPages; pages != 0; pages &= pages - 1 {
		at := s.Address + uint64(bits.TrailingZeros64(pages))*m.h.OSPage
		if at < s.Address+s.Bytes {
			clean += m.resident(at, at+1)
		}
	}
	clean = min(clean, resident-min(resident, live+cached))
	m.r.Live += live
	m.r.Cached += cached
	m.r.Clean += clean
	m.r.SlabFree += resident - min(resident, live+cached+clean)
}

func (m *measure) blocks(chunk inspect.Range) {
	for ; m.medium < len(m.h.Medium) && m.h.Medium[m.medium].Address < chunk.End; m.medium++ {
		m.block(m.h.Medium[m.medium])
	}
	for ; m.large < len(m.h.Large) && m.h.Large[m.large].Address < chunk.End; m.large++ {
		m.block(m.h.Large[m.large])
	}
}

func (m *measure) block(b inspect.Block) {
	resident := m.resident(b.Address, b.Address+b.Size)
	if b.Cached {
		m.r.Cached += resident
		return
	}
	m.r.Live += resident
	m.r.LiveBytes += b.Size
}

// freeSpans adds the free granules.
func (m *measure) freeSpans(chunk inspect.Range) {
	trackers := m.h.Trackers
	first := sort.Search(len(trackers), func(i int) bool { return trackers[i].Address >= chunk.Start })
	for _, t := range trackers[first:] {
		if t.Address >= chunk.End {
			return
		}
		if t.State != inspect.TrackerSpans && t.State != inspect.TrackerFree {
			continue
		}
		for g := range 64 * len(t.UsedBits) {
			at := t.Address + uint64(g)*m.h.Granule
			if has(t.UsedBits, g) || at >= chunk.End {
				continue
			}
			if n := m.resident(at, at+m.h.Granule); has(t.DirtyBits, g) {
				m.r.Dirty += n
			} else {
				m.r.Clean += n
			}
		}
	}
}

func has(words []uint64, i int) bool { return i/64 < len(words) && words[i/64]>>(i%64)&1 != 0 }
