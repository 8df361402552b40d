// Package profile makes heap and CPU profiles of processes and core files, shows them with pprof, and
// sends them to a continuous profiling server. Every profile has pprof's form.
package profile

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"

	"github.com/google/pprof/profile"
)

// The names of the values of a sample, in their order.
const (
	InUseObjects   = "inuse_objects"
	InUseSpace     = "inuse_space"
	AllocObjects   = "alloc_objects"
	AllocSpace     = "alloc_space"
	PinnedSpace    = "pinned_space"
	TemporarySpace = "temporary_space"
)

var sampleTypes = []struct{ name, unit string }{
	{InUseObjects, "count"}, {InUseSpace, "bytes"}, {AllocObjects, "count"}, {AllocSpace, "bytes"},
	{PinnedSpace, "bytes"}, {TemporarySpace, "bytes"},
}

// BeforeFrame replaces the unknown stack of objects that were live before the profile began.
const BeforeFrame = "[live before the profile]"

// ArenasFrame replaces the unknown stack of objects in scoped heaps and arenas, which are not sampled.
const ArenasFrame = "[scoped heaps and arenas, not sampled]"

// A Heap is everything that a profile is made from.
type Heap struct {
	Title   string
	Library string // path of the allocator; its own frames are left out
	Taken   time.Time
	Samples *inspect.Samples
	Modules []inspect.Module
	Before  []inspect.Before // objects from before the profile that are still live
	Pins    *Pins            // nil: not computed
	Arenas  Arenas
	// Ended is set when the process ended while it was sampled: how long before its end this was read.
	Ended time.Duration
}

// Arenas are the scoped heaps and arenas that the program made for itself.
type Arenas struct {
	Count uint64
	Bytes uint64 // that they allocated, in whole runs of pages
}

// A Built is a profile, and which of its locations each stack of the samples became.
type Built struct {
	*profile.Profile
	Stacks [][]*profile.Location
}

// Build makes the profile. Its addresses have no names yet.
func (h Heap) Build() Built {
	b := newBuilder(h)
	var stacks [][]*profile.Location
	for i, stack := range h.Samples.Stacks {
		inUse := stack.InUse()
		pinned := 0.0
		if h.Pins != nil {
			pinned = h.Pins.Stacks[i]
		}
		stacks = append(stacks, b.frames(stack.Frames))
		b.add(stacks[i], inUse.Objects, inUse.Bytes, stack.Allocated.Objects, stack.Allocated.Bytes, pinned, stack.Temporary.Bytes)
	}
	for _, before := range h.Before {
		b.add(b.named(className(before.Size), BeforeFrame), float64(before.Objects), float64(before.Bytes), 0, 0, 0, 0)
	}
	if h.Pins != nil && h.Pins.Unknown() > 0 {
		b.add(b.named("pages that it pins", BeforeFrame), 0, 0, 0, 0, h.Pins.Unknown(), 0)
	}
	b.add(b.named(ArenasFrame), 0, float64(h.Arenas.Bytes), 0, 0, 0, 0)
	return Built{b.p, stacks}
}

func className(size uint64) string {
	if size == 0 {
		return "large blocks"
	}
	return fmt.Sprintf("class %d", size)
}

// A builder adds locations and functions to a profile, each once.
type builder struct {
	p         *profile.Profile
	library   string
	mappings  []*profile.Mapping // by address
	locations map[uint64]*profile.Location
	pseudo    map[string]*profile.Location
}

func newBuilder(h Heap) *builder {
	b := &builder{library: sharedLibrary(h.Library), locations: map[uint64]*profile.Location{}, pseudo: map[string]*profile.Location{}}
	b.p = &profile.Profile{
		DefaultSampleType: InUseSpace,
		PeriodType:        &profile.ValueType{Type: "space", Unit: "bytes"},
		Period:            int64(h.Samples.Rate),
		TimeNanos:         h.Taken.UnixNano(),
		DurationNanos:     int64(h.Samples.For),
		Comments:          []string{h.Title},
	}
	if lost := h.Samples.Lost.Total(); lost > 0 {
		b.p.Comments = append(b.p.Comments, fmt.Sprintf("%d samples were lost", lost))
	}
	for _, t := range sampleTypes {
		b.p.SampleType = append(b.p.SampleType, &profile.ValueType{Type: t.name, Unit: t.unit})
	}
	modules := slices.Clone(h.Modules)
	slices.SortFunc(modules, func(a, b inspect.Module) int { return cmp.Compare(a.Start, b.Start) })
	for _, m := range modules {
		b.mappings = append(b.mappings, &profile.Mapping{
			ID: uint64(len(b.mappings) + 1), Start: m.Start, Limit: m.End, Offset: m.Offset, File: m.Path, BuildID: m.BuildID,
		})
	}
	b.p.Mapping = b.mappings
	return b
}

// sharedLibrary is the path if it is that of a library of its own; empty where the allocator is linked into
// the program and its code cannot be distinguished.
func sharedLibrary(path string) string {
	if strings.Contains(filepath.Base(path), ".so") {
		return path
	}
	return ""
}

// add adds one sample; values are in the order of sampleTypes.
func (b *builder) add(locations []*profile.Location, values ...float64) {
	s := &profile.Sample{Location: locations}
	any := false
	for _, v := range values {
		n := int64(math.Round(v))
		any = any || n != 0
		s.Value = append(s.Value, n)
	}
	if any {
		b.p.Sample = append(b.p.Sample, s)
	}
}

// frames returns the locations of return addresses, without those inside the allocator. A return
// address is after the call instruction; the address less one is within it.
func (b *builder) frames(returns []uint64) []*profile.Location {
	var out []*profile.Location
	for _, address := range returns {
		m := b.mapping(address - 1)
		if len(out) == 0 && m != nil && m.File == b.library && b.library != "" {
			continue
		}
		l := b.locations[address-1]
		if l == nil {
			l = b.location(&profile.Location{Mapping: m, Address: address - 1})
			b.locations[address-1] = l
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return b.named("[no stack]")
	}
	return out
}

func (b *builder) location(l *profile.Location) *profile.Location {
	l.ID = uint64(len(b.p.Location) + 1)
	b.p.Location = append(b.p.Location, l)
	return l
}

func (b *builder) mapping(address uint64) *profile.Mapping {
	i, _ := slices.BinarySearchFunc(b.mappings, address, func(m *profile.Mapping, a uint64) int { return cmp.Compare(m.Start, a+1) })
	if i == 0 || address >= b.mappings[i-1].Limit {
		return nil
	}
	return b.mappings[i-1]
}

// named are locations that are no addresses, innermost first.
func (b *builder) named(names ...string) (out []*profile.Location) {
	for _, name := range names {
		l := b.pseudo[name]
		if l == nil {
			f := &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name}
			b.p.Function = append(b.p.Function, f)
			l = b.location(&profile.Location{Line: []profile.Line{{Function: f}}})
			b.pseudo[name] = l
		}
		out = append(out, l)
	}
	return out
}
