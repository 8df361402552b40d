package cold

import (
	"sort"
	"time"

	"github.com/granary-allocator/granary/tool/internal/accessed"
)

// Ages tell for each page of some ranges when it was last accessed. The resolution is one interval of the watch.
type Ages struct {
	page uint64 // bytes
	ends []time.Duration
	runs []run
}

// A run holds what is known about the pages of one range.
type run struct {
	accessed.Range
	last     []uint8 // the last interval in which the page was accessed, from 1; 0: in none
	inMemory []bool  // at the end of the last interval
}

// maxIntervals keeps the number of an interval in one byte.
const maxIntervals = 200

// newAges knows nothing yet about the ranges, which are sorted and disjoint.
func newAges(ranges []accessed.Range, page uint64) *Ages {
	a := &Ages{page: page}
	for _, r := range ranges {
		pages := (r.End - r.Start) / page
		a.runs = append(a.runs, run{r, make([]uint8, pages), make([]bool, pages)})
	}
	return a
}

// end ends an interval, this long after the begin of the watch; what a sample then visits belongs to it.
func (a *Ages) end(after time.Duration) (visit func(r accessed.Range, touched bool)) {
	a.ends = append(a.ends, after)
	for i := range a.runs {
		clear(a.runs[i].inMemory)
	}
	return func(r accessed.Range, touched bool) {
		for at := r.Start; at < r.End; at += a.page {
			if run, i := a.find(at); run != nil {
				run.inMemory[i] = true
				if touched {
					run.last[i] = uint8(len(a.ends))
				}
			}
		}
	}
}

func (a *Ages) find(address uint64) (*run, uint64) {
	i := sort.Search(len(a.runs), func(i int) bool { return a.runs[i].End > address })
	if i == len(a.runs) || address < a.runs[i].Start {
		return nil, 0
	}
	return &a.runs[i], (address - a.runs[i].Start) / a.page
}

// Of is how long the page at address was not accessed at least, and false if it is not in memory. A page of which
// nothing is known is as young as possible.
func (a *Ages) Of(address uint64) (age time.Duration, inMemory bool) {
	run, i := a.find(address)
	switch {
	case run == nil:
		return 0, true
	case !run.inMemory[i]:
		return 0, false
	case run.last[i] == 0:
		return a.Length(), true
	}
	return a.Length() - a.ends[run.last[i]-1], true
}

// before is the time from the n-th last end of an interval to the last one; n of all of them is the whole watch.
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
