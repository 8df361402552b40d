package trace

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"time"
)

// A Summary describes the content of a trace. In a sampled trace, the figures are those of the sample.
type Summary struct {
	Header    Header   `json:"header"`
	Findings  Findings `json:"findings"`
	Events    uint64   `json:"events"`
	Objects   uint64   `json:"objects"`
	Bytes     uint64   `json:"bytes"` // requested, of all objects
	Frees     uint64   `json:"frees"`
	Reallocs  uint64   `json:"reallocs"`
	Remote    uint64   `json:"remote_frees"` // frees by another thread than the allocation's
	Threads   int      `json:"threads"`
	Peak      Live     `json:"peak"`
	End       Live     `json:"end"`
	BySize    []Group  `json:"by_size"` // exact sizes, in their order
	ByStack   []Group  `json:"by_stack,omitempty"`
	ByDoubled []Group  `json:"by_size_range"` // sizes up to a power of two, in their order
}

// Live are the live objects of a moment.
type Live struct {
	Time    time.Duration `json:"time_ns"`
	Objects uint64        `json:"objects"`
	Bytes   uint64        `json:"bytes"`
}

// A Group is objects of one size, of the sizes from its predecessor's to its own, or of one stack.
type Group struct {
	Size     uint64 `json:"size,omitempty"`
	Stack    uint32 `json:"stack,omitempty"` // index in the header's stacks, plus one; 0: unknown
	Objects  uint64 `json:"objects"`
	Bytes    uint64 `json:"bytes"`
	AtPeak   Live   `json:"at_peak"` // live when the live bytes of all groups had their peak
	AtEnd    uint64 `json:"at_end"`  // objects live at the end
	EndBytes uint64 `json:"at_end_bytes"`
	Remote   uint64 `json:"remote_frees"`
	live     Live   // now
	peak     Live   // at the peak so far
	changed  bool   // since the peak so far
	lives    [64]uint64
	// Lifetimes of the freed objects: half of them, nine of ten, 99 of 100 lived at most so long.
	Half      time.Duration `json:"lifetime_p50_ns"`
	NineTenth time.Duration `json:"lifetime_p90_ns"`
	NearlyAll time.Duration `json:"lifetime_p99_ns"`
}

// Summarize reads all events of t.
func Summarize(t *Trace) Summary {
	s := summing{bySize: map[uint64]*Group{}, threads: map[uint32]bool{}}
	if len(t.Header.Stacks) > 0 {
		s.byStack = map[uint32]*Group{}
	}
	for e := range t.Events() {
		s.add(e)
	}
	s.peakPassed()
	return s.finish(t)
}

// summing keeps the groups whose live objects changed since the peak so far.
type summing struct {
	Summary
	bySize  map[uint64]*Group
	byStack map[uint32]*Group // nil without stacks
	changed []*Group
	atTop   bool // the live bytes are at their peak
	threads map[uint32]bool
}

func (s *summing) add(e Event) {
	s.Events++
	s.threads[e.Thread] = true
	if e.Ends() {
		s.ends(e)
	}
	if e.Begins() {
		s.begins(e)
	}
	if e.Kind == Realloc {
		s.Reallocs++
	}
	s.Header.Length = max(s.Header.Length, e.Time)
}

func (s *summing) begins(e Event) {
	s.Objects++
	s.Bytes += e.Size
	if s.bySize[e.Size] == nil {
		s.bySize[e.Size] = &Group{Size: e.Size}
	}
	if s.byStack != nil && s.byStack[e.Stack] == nil {
		s.byStack[e.Stack] = &Group{Stack: e.Stack}
	}
	for g := range s.groups(e.Size, e.Stack) {
		g.Objects++
		g.Bytes += e.Size
		s.change(g, 1, e.Size)
	}
	s.End.Objects++
	s.End.Bytes += e.Size
	if s.End.Bytes > s.Peak.Bytes {
		s.Peak, s.atTop = Live{Time: e.Time, Objects: s.End.Objects, Bytes: s.End.Bytes}, true
	}
}

func (s *summing) ends(e Event) {
	s.peakPassed()
	if e.Kind == Free {
		s.Frees++
	}
	remote := uint64(0)
	if e.Thread != e.Old.Thread {
		remote = 1
	}
	s.Remote += remote
	for g := range s.groups(e.Old.Size, e.Old.Stack) {
		g.lives[bits.Len64(uint64(max(0, e.Time-e.Old.Born)))]++
		g.Remote += remote
		s.change(g, -1, -e.Old.Size)
	}
	s.End.Objects--
	s.End.Bytes -= e.Old.Size
}

// groups are those of an object.
func (s *summing) groups(size uint64, stack uint32) iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		if yield(s.bySize[size]) && s.byStack != nil {
			yield(s.byStack[stack])
		}
	}
}

func (s *summing) change(g *Group, objects int, bytes uint64) {
	g.live.Objects += uint64(objects)
	g.live.Bytes += bytes
	if !g.changed {
		g.changed = true
		s.changed = append(s.changed, g)
	}
}

// peakPassed keeps the live objects of the peak, before the first of them ends.
func (s *summing) peakPassed() {
	if !s.atTop {
		return
	}
	s.atTop = false
	for _, g := range s.changed {
		g.peak, g.changed = g.live, false
	}
	s.changed = s.changed[:0]
}

func (s *summing) finish(t *Trace) Summary {
	length := s.Header.Length
	s.Header, s.Findings, s.Summary.Threads, s.End.Time = t.Header, t.Findings, len(s.threads), length
	for _, g := range s.bySize {
		g.ended(s.Peak.Time)
	}
	for _, g := range s.byStack {
		g.ended(s.Peak.Time)
	}
	ranges := map[uint64]*Group{}
	for _, g := range s.bySize {
		size := uint64(1) << bits.Len64(max(g.Size, 16)-1)
		if ranges[size] == nil {
			ranges[size] = &Group{Size: size}
		}
		ranges[size].include(g)
	}
	s.BySize, s.ByDoubled, s.ByStack = sorted(s.bySize), sorted(ranges), sorted(s.byStack)
	return s.Summary
}

func (g *Group) ended(peak time.Duration) {
	g.AtPeak, g.AtEnd, g.EndBytes = g.peak, g.live.Objects, g.live.Bytes
	g.AtPeak.Time = peak
}

func sorted[K uint32 | uint64](groups map[K]*Group) []Group {
	var out []Group
	for _, g := range groups {
		g.Half, g.NineTenth, g.NearlyAll = g.lifetime(0.5), g.lifetime(0.9), g.lifetime(0.99)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Stack, b.Stack)) })
	return out
}

func (g *Group) include(o *Group) {
	g.Objects += o.Objects
	g.Bytes += o.Bytes
	g.AtPeak.Time = o.AtPeak.Time
	g.AtPeak.Objects += o.AtPeak.Objects
	g.AtPeak.Bytes += o.AtPeak.Bytes
	g.AtEnd += o.AtEnd
	g.EndBytes += o.EndBytes
	g.Remote += o.Remote
	for i, n := range o.lives {
		g.lives[i] += n
	}
}

// lifetime is an upper bound, to a factor of two, of the lifetime that this share of the freed objects did not exceed.
func (g *Group) lifetime(share float64) time.Duration {
	freed := uint64(0)
	for _, n := range g.lives {
		freed += n
	}
	left := uint64(share * float64(freed))
	for i, n := range g.lives {
		if n > left {
			return time.Duration(uint64(1)<<i - 1)
		}
		left -= n
	}
	return 0
}
