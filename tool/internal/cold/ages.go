package cold

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// Ages tell for each page of some ranges when it was last accessed. The resolution is one interval of the watch.
type Ages struct {
	page uint64          // bytes
	ends []time.Duration // of the last intervals, since the begin of the watch
	runs []run           // sorted
}

// A run holds the ages of the pages of one range.
type run struct {
	Range
	idle  []uint8 // intervals since the last one in which the page was accessed, at most maxIdle
	state []pageState
}

// A pageState is a set of these bits.
type pageState uint8

const (
	inMemory  pageState = 1 << iota // at the end of the last interval
	pagedOut                        // by this command, and not in memory since
	returned                        // to memory after it was paged out
	candidate                       // a candidate at the end of the last interval
)

const maxIdle = math.MaxUint8

func newAges(ranges []Range, page uint64) *Ages {
	a := &Ages{page: page}
	a.extend(ranges)
	return a
}

// extend adds the parts of the ranges that are not known yet, as if they were accessed in the last interval.
func (a *Ages) extend(ranges []Range) {
	for _, r := range ranges {
		for _, part := range a.unknown(r) {
			pages := part.Bytes() / a.page
			a.runs = append(a.runs, run{part, make([]uint8, pages), make([]pageState, pages)})
		}
		slices.SortFunc(a.runs, func(x, y run) int { return cmp.Compare(x.Start, y.Start) })
	}
}

// unknown are the parts of r that belong to no run.
func (a *Ages) unknown(r Range) (parts []Range) {
	for _, known := range a.runs {
		if known.Start >= r.End || known.End <= r.Start {
			continue
		}
		if r.Start < known.Start {
			parts = append(parts, Range{Start: r.Start, End: known.Start})
		}
		r.Start = min(known.End, r.End)
	}
	if r.Start < r.End {
		parts = append(parts, r)
	}
	return parts
}

// end ends an interval at this time of the watch. The sample calls visit with the accesses of the interval.
func (a *Ages) end(after time.Duration) (visit func(r Range, touched bool)) {
	a.ends = append(a.ends, after)
	if len(a.ends) > maxIdle {
		a.ends = a.ends[1:]
	}
	for _, r := range a.runs {
		for i := range r.idle {
			r.state[i] &^= inMemory | candidate
			if r.idle[i] < maxIdle {
				r.idle[i]++
			}
		}
	}
	return a.visit
}

func (a *Ages) visit(r Range, touched bool) {
	for at := r.Start; at < r.End; at += a.page {
		run, i := a.find(at)
		if run == nil {
			continue
		}
		run.state[i] |= inMemory
		if touched {
			run.idle[i] = 0
		}
	}
}

// find is the run that contains the address, and the index of its page; nil for none.
func (a *Ages) find(address uint64) (*run, uint64) {
	i := sort.Search(len(a.runs), func(i int) bool { return a.runs[i].End > address })
	if i == len(a.runs) || address < a.runs[i].Start {
		return nil, 0
	}
	return &a.runs[i], (address - a.runs[i].Start) / a.page
}

// Of is the least time since the last access to the page at address, and false if the page is not in memory. The time
// is 0 for a page that no sample has visited.
func (a *Ages) Of(address uint64) (age time.Duration, present bool) {
	run, i := a.find(address)
	switch {
	case run == nil:
		return 0, true
	case run.state[i]&inMemory == 0:
		return 0, false
	}
	return a.before(int(run.idle[i])), true
}

// before is the length of the last n intervals.
func (a *Ages) before(n int) time.Duration {
	if n >= len(a.ends) {
		return a.Length()
	}
	return a.Length() - a.ends[len(a.ends)-1-n]
}

// Length is the time from the begin of the watch to the end of the last interval.
func (a *Ages) Length() time.Duration {
	if len(a.ends) == 0 {
		return 0
	}
	return a.ends[len(a.ends)-1]
}

func (a *Ages) mark(r Range, s pageState) { a.each(r, func(state *pageState) { *state |= s }) }
func (a *Ages) unmark(r Range, s pageState) {
	a.each(r, func(state *pageState) { *state &^= s })
}

func (a *Ages) each(r Range, visit func(*pageState)) {
	for at := r.Start; at < r.End; at += a.page {
		if run, i := a.find(at); run != nil {
			visit(&run.state[i])
		}
	}
}

// bytes are those of the pages in a state.
func (a *Ages) bytes(s pageState) (sum uint64) {
	for _, r := range a.runs {
		for _, state := range r.state {
			if state&s != 0 {
				sum += a.page
			}
		}
	}
	return sum
}

// settle counts the pages that were paged out before this interval: the bytes that returned to memory, and the bytes
// that are still out. A page that is no longer a candidate was freed and counts as neither.
func (a *Ages) settle() (back, out uint64) {
	for _, r := range a.runs {
		for i, state := range r.state {
			switch {
			case state&candidate == 0:
				r.state[i] &^= pagedOut | returned
			case state&pagedOut == 0:
			case state&inMemory == 0:
				out += a.page
			default:
				r.state[i] = state&^pagedOut | returned
				back += a.page
			}
		}
	}
	return back, out
}
