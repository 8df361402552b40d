package cold

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A tally divides the live memory of a heap by the age of its pages.
type tally struct {
	heap   *inspect.HeapMap
	ages   *Ages
	limits []time.Duration // ascending; the last one is the length of the watch
	cold   uint64          // bytes of pages with live objects that are older than the last limit
}

// newTally has limits near an eighth, a quarter and half of the watch, as far as its intervals tell them apart.
func newTally(heap *inspect.HeapMap, ages *Ages) *tally {
	t := &tally{heap: heap, ages: ages}
	for _, part := range []int{8, 4, 2, 1} {
		if n := len(ages.ends) / part; n > 0 {
			t.limits = append(t.limits, ages.before(n))
		}
	}
	t.limits = slices.Compact(t.limits)
	return t
}

func (t *tally) amounts() Amounts { return Amounts{ByAge: make([]uint64, len(t.limits))} }

// page adds live bytes that are on one page; it is false if the page was accessed during the watch, or is not in
// memory.
func (t *tally) page(to *Amounts, address, live uint64) (cold bool) {
	age, inMemory := t.ages.Of(address)
	if !inMemory {
		return false
	}
	to.InMemory += live
	for i, limit := range t.limits {
		if age >= limit {
			to.ByAge[i] += live
		}
	}
	return age >= t.ages.Length()
}

// classes divides all live objects and blocks, the class with most cold memory first.
func (t *tally) classes() []Class {
	by := map[uint64]*Class{}
	livePages(t.heap, func(page, size, live uint64) {
		if by[size] == nil {
			by[size] = &Class{Size: size, Amounts: t.amounts()}
		}
		by[size].Live += live
		if t.page(&by[size].Amounts, page, live) {
			t.cold += t.heap.OSPage
		}
	})
	var rows []Class
	for _, class := range by {
		rows = append(rows, *class)
	}
	slices.SortFunc(rows, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Cold(), a.Cold()), cmp.Compare(b.Live, a.Live), cmp.Compare(a.Size, b.Size))
	})
	return rows
}

// arenas divides the pages of scoped heaps and arenas.
func (t *tally) arenas() (rows []Arena) {
	for _, a := range t.heap.Arenas {
		row := Arena{Index: a.Index, Live: a.Live, Amounts: t.amounts()}
		arenaPages(t.heap, a, func(page uint64) {
			if t.page(&row.Amounts, page, t.heap.OSPage) {
				t.cold += t.heap.OSPage
			}
		})
		rows = append(rows, row)
	}
	return rows
}

// stacks estimates the memory of each stack, the one with most cold memory first; names are by index of samples.Stacks.
func (t *tally) stacks(samples *inspect.Samples, names [][]string) []Stack {
	by := map[string]*Stack{}
	for _, s := range samples.Live {
		key := strings.Join(names[s.Stack], "\n")
		if by[key] == nil {
			by[key] = &Stack{Amounts: t.amounts(), Stack: names[s.Stack]}
		}
		one := t.amounts()
		pagesOf(t.heap, s.Address, s.Bytes, func(page, bytes uint64) { t.page(&one, page, bytes) })
		by[key].add(one, s.Objects)
	}
	var rows []Stack
	for _, row := range by {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b Stack) int {
		return cmp.Or(cmp.Compare(b.Cold(), a.Cold()), cmp.Compare(b.InMemory, a.InMemory), slices.Compare(a.Stack, b.Stack))
	})
	return rows
}
