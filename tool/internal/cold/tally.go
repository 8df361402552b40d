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

// object adds a live object, page by page, and returns how many of its pages are cold.
func (t *tally) object(to *Amounts, address, size uint64) (cold uint64) {
	page := t.heap.OSPage
	for at, end := address, address+size; at < end; {
		next := min(end, at&^(page-1)+page)
		if t.page(to, at, next-at) {
			cold++
		}
		at = next
	}
	return cold
}

// classes divides all live objects and blocks, the class with most cold memory first.
func (t *tally) classes() []Class {
	by := map[uint64]*Class{}
	page := t.heap.OSPage
	for i := range t.heap.Slabs {
		s := &t.heap.Slabs[i]
		class := t.class(by, s.ObjectSize)
		class.Live += uint64(s.Live()) * s.ObjectSize
		for n := range s.Bytes / page {
			if live, idle := s.Occupied(page, n); live > 0 && t.page(&class.Amounts, s.Address+n*page, page-idle) {
				t.cold += page
			}
		}
	}
	for _, b := range t.heap.Medium {
		if !b.Cached {
			t.block(t.class(by, b.Size), b)
		}
	}
	for _, b := range t.heap.Large {
		t.block(t.class(by, 0), b)
	}
	var rows []Class
	for _, class := range by {
		rows = append(rows, *class)
	}
	slices.SortFunc(rows, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Cold(), a.Cold()), cmp.Compare(b.Live, a.Live), cmp.Compare(a.Size, b.Size))
	})
	return rows
}

func (t *tally) class(by map[uint64]*Class, size uint64) *Class {
	if by[size] == nil {
		by[size] = &Class{Size: size, Amounts: t.amounts()}
	}
	return by[size]
}

func (t *tally) block(class *Class, b inspect.Block) {
	class.Live += b.Size
	t.cold += t.heap.OSPage * t.object(&class.Amounts, b.Address, b.Size)
}

// stacks estimates what each stack holds, the one with most cold memory first; names are by index of samples.Stacks.
func (t *tally) stacks(samples *inspect.Samples, names [][]string) []Stack {
	by := map[string]*Stack{}
	for _, s := range samples.Live {
		key := strings.Join(names[s.Stack], "\n")
		if by[key] == nil {
			by[key] = &Stack{Amounts: t.amounts(), Stack: names[s.Stack]}
		}
		one := t.amounts()
		t.object(&one, s.Address, s.Bytes)
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
