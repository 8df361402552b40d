package inspect

import "time"

// A Snapshot is the figures of a heap at one moment.
type Snapshot struct {
	// Version is the library's ("0.1.0"), LayoutVersion that of its descriptor.
	Version       string    `json:"version"`
	LayoutVersion int       `json:"layout_version"`
	Taken         time.Time `json:"taken"`
	// Consistent says that nothing changed while the figures were read, so that they are those of one
	// moment. Where it is false, Bound is by how many bytes sums of them may be off: the most that a
	// figure moved between two readings, or what a thread that was stopped inside the allocator may
	// hold. Objects that a thread is moving between layers are always included in live or used:
	// at most 62 objects or one span a thread.
	Consistent bool        `json:"consistent"`
	Bound      uint64      `json:"bound_bytes"`
	Metrics    []Metric    `json:"metrics"`
	Classes    []Class     `json:"classes"`
	Caches     []CacheInfo `json:"caches"`
	Options    []Option    `json:"options"`
	Locks      []Lock      `json:"locks"`
}

// A Metric is one figure of the table core/src/stats/counters.def.
type Metric struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`  // "gauge" or "counter"
	Unit  string `json:"unit"`  // "bytes", "count" or "nanoseconds"
	Layer string `json:"layer"` // the folder of core/src that keeps it
	Help  string `json:"help"`
	Value uint64 `json:"value"`
}

// A Class is the objects of one size. Counts are objects unless they say bytes.
type Class struct {
	Size    uint64 `json:"size"`    // bytes of an object
	Smaller uint64 `json:"smaller"` // bytes of the next smaller class: requests are larger
	Small   bool   `json:"small"`   // cut from slabs; others are a span of granules each

	Allocations uint64 `json:"allocations"`
	Frees       uint64 `json:"frees"`
	Live        uint64 `json:"live"`
	Cached      uint64 `json:"cached"`    // free, in the caches of the CPUs
	Depot       uint64 `json:"depot"`     // free, in transit between caches
	SlabFree    uint64 `json:"slab_free"` // free, in slabs

	Slabs        uint64 `json:"slabs"`
	PartialSlabs uint64 `json:"partial_slabs"` // with a free object
	SlabBytes    uint64 `json:"slab_bytes"`    // of one slab
	SlabObjects  uint64 `json:"slab_objects"`  // of one slab
	CleanBytes   uint64 `json:"clean_bytes"`   // of all slabs, pages that hold nothing
	Contentions  uint64 `json:"contentions"`   // times the lock of its slabs was found taken
}

// LiveBytes is what the program holds of the class.
func (c Class) LiveBytes() uint64 { return c.Live * c.Size }

// WasteBytes is what the class keeps and the program does not use: free objects and ends of slabs,
// less the pages that hold nothing.
func (c Class) WasteBytes() uint64 {
	if !c.Small {
		return (c.Cached + c.Depot) * c.Size
	}
	return c.Slabs*c.SlabBytes - min(c.Slabs*c.SlabBytes, c.LiveBytes()+c.CleanBytes)
}

// A CacheInfo is one cache: of a CPU, of a thread, or shared.
type CacheInfo struct {
	Kind    string `json:"kind"` // "cpu", "thread" or "shared"
	Index   int    `json:"index"`
	Objects uint64 `json:"objects"`  // free objects in it
	Bytes   uint64 `json:"bytes"`    // of these objects
	Room    uint64 `json:"capacity"` // bytes of objects it has slots for
}

// An Option is a setting and its value in the target.
type Option struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // as in core/src/config/options.def
	Help      string `json:"help"`
	AtRunTime bool   `json:"at_run_time"` // whether it can change while the program runs
	Value     int64  `json:"value"`
	Word      string `json:"word,omitempty"` // what the value is called, where it has a name
	Source    string `json:"source"`         // where the value comes from: "default", "GRANARY_CONF", ...
	Default   int64  `json:"default"`
	Lowest    int64  `json:"lowest"`
	Highest   int64  `json:"highest"`
}

// A Lock is one lock of the library, or one for each class added up.
type Lock struct {
	Name        string `json:"name"`
	Taken       uint64 `json:"taken"`       // times it was held and let go, modulo 2^32 for each
	Contentions uint64 `json:"contentions"` // times a thread had to wait for it
	Held        bool   `json:"held"`        // when it was read
}

// Value is the figure called name; false if the library has none of that name.
func (s *Snapshot) Value(name string) (uint64, bool) {
	for _, m := range s.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}
