package inspect

import (
	"math"
	"time"
)

// readings is how often the figures are read in the hope of two that agree.
const readings = 6

// Snapshot reads the figures without stopping the target; Snapshot.Consistent says whether they belong together.
func (t *Target) Snapshot() (*Snapshot, error) {
	taken := time.Now()
	last, err := t.capture()
	if err != nil {
		return nil, err
	}
	s, agreed := last.snapshot(), false
	var bound uint64
	for range readings - 1 {
		next, err := last.again()
		if err != nil {
			return nil, err
		}
		if agreed = last.same(next); agreed {
			break
		}
		newer := next.snapshot()
		bound = moved(s, newer)
		last, s = next, newer
	}
	s.Taken = taken
	if p, ok := t.memory.(*published); ok {
		s.Taken = p.taken
	}
	if agreed {
		bound = 0
	}
	s.Bound = bound + last.inside()
	s.Consistent = agreed && s.Bound == 0
	return s, nil
}

// ceiling is the gauge that is a limit, not an amount of memory.
const ceiling = "ceiling"

// moved is by how much the amounts of memory of two snapshots differ at most, in bytes.
func moved(a, b *Snapshot) (most uint64) {
	for i, m := range b.Metrics {
		if m.Kind == "gauge" && m.Unit == "bytes" && m.Name != ceiling && i < len(a.Metrics) {
			most = max(most, max(m.Value, a.Metrics[i].Value)-min(m.Value, a.Metrics[i].Value))
		}
	}
	return most
}

// batch is how many objects move between layers at a time.
const batch = 62

// inside bounds the bytes in transit under locks that were held: nothing if all were free.
func (c *capture) inside() (bytes uint64) {
	l := c.t.layout
	small := l.constant("classes.small")
	c.each("lock.central.held", func(i int, v uint64) {
		if v != 0 && i < len(l.classes) {
			bytes += max(batch*l.classes[i].size, l.classes[i].slabBytes)
		}
	})
	c.each("lock.central_medium.held", func(i int, v uint64) {
		if at := uint64(i) + small; v != 0 && at < uint64(len(l.classes)) {
			bytes += l.classes[at].size
		}
	})
	c.each("lock.depot.held", func(i int, v uint64) {
		if class := i % int(max(small, 1)); v != 0 && class < len(l.classes) {
			bytes += batch * l.classes[class].size
		}
	})
	for _, name := range []string{"lock.pages.held", "lock.metadata.held"} {
		if v, _ := c.first(name); v != 0 {
			bytes += l.constant("tracker")
		}
	}
	return bytes
}

// snapshot derives all figures, as Measure() does in the process (core/src/inspection/measure.cc).
func (c *capture) snapshot() *Snapshot {
	l := c.t.layout
	s := &Snapshot{Version: l.library, LayoutVersion: l.version}
	s.Classes, s.Caches = c.classes()
	s.Locks = c.locks()
	derived := c.derive(s)
	for _, row := range l.metrics {
		m := row.Metric
		if row.cell != noCell && int(row.cell) < len(l.cells) {
			m.Value, _ = c.sum(l.cells[row.cell])
		} else if v, ok := derived[m.Name]; ok {
			m.Value = v
		} else {
			continue // of a later version, and not to be had from a cell
		}
		if m.Name == ceiling && m.Value == 0 {
			m.Value = math.MaxUint64 // the library has not read the limits yet; it tells itself the same (limits.h)
		}
		s.Metrics = append(s.Metrics, m)
	}
	sources := c.values("options.source")
	for i, row := range l.options {
		o := row.Option
		v, ok := number(c.bases[baseOptions], row.offset-c.from[baseOptions], row.width)
		if !ok {
			continue
		}
		o.Value = signed(v, row.width)
		o.Source = l.sources[at(sources, i)]
		o.Word = l.words[o.Name][o.Value]
		s.Options = append(s.Options, o)
	}
	return s
}

func signed(v uint64, width uint32) int64 {
	switch width {
	case 4:
		return int64(int32(v))
	case 2:
		return int64(int16(v))
	}
	return int64(v)
}

// at is values[i], or 0 where a class has no such number.
func at(values []uint64, i int) uint64 {
	if i < 0 || i >= len(values) {
		return 0
	}
	return values[i]
}

// classes gathers the figures of each class from the slabs, the depot and the caches.
func (c *capture) classes() ([]Class, []CacheInfo) {
	l := c.t.layout
	small := int(min(l.constant("classes.small"), uint64(len(l.classes)))) // the constant may be damaged
	guard, _ := c.first("central.guard")
	slabs, free := c.values("central.slabs"), c.values("central.free_objects")
	partial, clean := c.values("central.partial_slabs"), c.values("central.clean_bytes")
	medium, depot := c.values("central.medium_used"), make([]uint64, max(small, 1))
	c.each("depot.objects", func(i int, v uint64) { depot[i%len(depot)] += v }) // each CPU's shelf has a row for each class
	uncached := c.values("front.uncached")
	waits, mediumWaits := c.values("lock.central.contentions"), c.values("lock.central_medium.contentions")
	classes := make([]Class, 0, len(l.classes))
	for i, row := range l.classes {
		k := Class{Size: row.size, Smaller: row.smaller, Small: i < small, SlabBytes: row.slabBytes, SlabObjects: row.objectsBefore(guard)}
		k.Allocations = at(uncached, i)
		if k.Small {
			k.Contentions = at(waits, i)
			k.Slabs, k.SlabFree, k.PartialSlabs = at(slabs, i), at(free, i), at(partial, i)
			k.CleanBytes, k.Depot = at(clean, i), depot[i]
			k.Live = k.Slabs*k.SlabObjects - k.SlabFree
		} else {
			k.Live, k.Contentions = at(medium, i-small), at(mediumWaits, i-small)
		}
		classes = append(classes, k)
	}
	caches := c.countCaches(classes)
	for i := range classes {
		k := &classes[i]
		k.Live -= min(k.Live, k.Cached+k.Depot)
		k.Frees = k.Allocations - min(k.Allocations, k.Live)
	}
	return classes[1:], caches
}

// countCaches adds what the headers of the caches tell to the classes.
func (c *capture) countCaches(classes []Class) []CacheInfo {
	l := c.t.layout
	words, mask, shift := l.constant("cache.words"), l.constant("cache.cursor_mask"), l.constant("cache.count_shift")
	issued, initial := l.constant("cache.issued"), l.constant("cache.initial")
	caches := make([]CacheInfo, 0, len(c.caches))
	for _, image := range c.caches {
		info := image.CacheInfo
		info.Room, _ = number(image.bytes, l.constant("cache.granted"), 8)
		for i := 1; i < len(classes); i++ {
			row := l.classes[i]
			allocations, _ := number(image.bytes, issued+8*uint64(i), 8)
			for _, list := range row.lists(uint64(i)) {
				header, _ := number(image.bytes, words+8*list, 8)
				held := row.objectsIn(list, header&mask, l.classes[1].longFloor)
				allocations += initial - header>>shift
				classes[i].Cached += held
				info.Objects += held
				info.Bytes += held * row.size
			}
			classes[i].Allocations += allocations & (^uint64(0) >> shift)
		}
		caches = append(caches, info)
	}
	return caches
}

// objectsBefore is how many objects a slab has that ends with a guard of so many bytes, which only long slabs have.
func (row classRow) objectsBefore(guard uint64) uint64 {
	if guard == 0 || row.size == 0 || row.slabBytes/8 < guard {
		return row.slabObjects
	}
	return (row.slabBytes - guard) / row.size
}

// lists are the lists of a cache that hold objects of a class.
func (row classRow) lists(class uint64) []uint64 {
	if row.readyList == 0 {
		return []uint64{class}
	}
	return []uint64{class, row.readyList}
}

// objectsIn is the number of objects below the cursor of one of the class's lists; 0 for an impossible cursor.
func (row classRow) objectsIn(list, cursor, firstLong uint64) uint64 {
	floor, capacity := row.shortFloor, row.shortCapacity
	switch {
	case list == row.readyList:
		floor, capacity = row.readyFloor, row.readyCapacity
	case cursor >= firstLong:
		floor, capacity = row.longFloor, row.longCapacity
	}
	if cursor < floor || cursor-floor > capacity {
		return 0
	}
	return cursor - floor
}

func (c *capture) locks() []Lock {
	var locks []Lock
	for _, name := range c.t.layout.lockNames() {
		lock := Lock{Name: name}
		c.each("lock."+name+".held", func(_ int, v uint64) { lock.Held = lock.Held || v != 0 })
		c.each("lock."+name+".turns", func(_ int, v uint64) { lock.Taken += v })
		c.each("lock."+name+".contentions", func(_ int, v uint64) { lock.Contentions += v })
		locks = append(locks, lock)
	}
	cache := Lock{Name: "caches"}
	for _, image := range c.caches {
		n := func(name string) uint64 {
			v, _ := number(image.bytes, c.t.layout.constant(name), 4)
			return v
		}
		cache.Held = cache.Held || n("cache.held") != 0
		cache.Taken += n("cache.turns")
		cache.Contentions += n("cache.contentions")
	}
	return append(locks, cache)
}

// derive works out the figures that no cell holds.
func (c *capture) derive(s *Snapshot) map[string]uint64 {
	d := map[string]uint64{"background_thread": 0}
	for _, k := range s.Classes {
		d["allocations"] += k.Allocations
		d["live_objects"] += k.Live
		d["live"] += k.Live * k.Size
		d["rounding_max"] += k.Live * (k.Size - k.Smaller - 1)
		d["cached"] += k.Cached * k.Size
		d["cached_objects"] += k.Cached
		d["depot"] += k.Depot * k.Size
		d["slab_bytes"] += k.Slabs * k.SlabBytes
		if k.Small {
			held := (k.Live + k.Cached + k.Depot) * k.Size
			d["slab_free"] += k.Slabs*k.SlabBytes - min(k.Slabs*k.SlabBytes, held)
		}
	}
	large, requested := c.total("pages.large"), c.total("pages.large_requested")
	allocations, frees := c.total("pages.large_allocations"), c.total("pages.large_frees")
	d["large_blocks"] = allocations - min(allocations, frees)
	d["rounding_expected"] = d["rounding_max"]/2 + large - min(large, requested)
	d["rounding_max"] += large - min(large, requested)
	d["allocations"] += allocations
	d["live_objects"] += d["large_blocks"]
	d["live"] += large
	d["live_peak"] = max(d["live"], c.total("peaks.live"))
	d["held"] = c.total("pages.used") + c.total("pages.dirty")
	d["frees"] = d["allocations"] - min(d["allocations"], d["live_objects"])
	d["released"] = c.total("pages.released") + c.total("central.released")
	d["caches"] = uint64(len(s.Caches))
	for _, cache := range s.Caches {
		d["cache_capacity"] += cache.Room
	}
	if v, _ := c.first("upkeep.background_thread"); v == c.t.layout.constant("upkeep.background_thread_runs") {
		d["background_thread"] = 1
	}
	for _, lock := range s.Locks {
		if layer, ok := layerOfLock[lock.Name]; ok {
			d["contentions_"+layer] += lock.Contentions
		}
	}
	return d
}

// layerOfLock tells which lock's contentions are of which layer, where no cell adds them up.
var layerOfLock = map[string]string{
	"caches": "front", "create": "front", "shared": "front",
	"depot":   "depot",
	"central": "central", "central_medium": "central",
}
