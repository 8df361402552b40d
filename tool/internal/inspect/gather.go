package inspect

import (
	"cmp"
	"errors"
	"slices"
)

// Structures are close to each other in the allocator's metadata: if no more than this many bytes are
// between two of them, they are read as one piece, of at most maxRun bytes.
const (
	maxGap = 256
	maxRun = 1 << 20
)

// A wanted is a structure to read, and its bytes once it is read. Of one that cannot be read they
// are zero.
type wanted struct {
	address uint64
	size    int
	bytes   []byte
}

// gather reads structures, neighbours together; those that cannot be read are named as damage.
func (w *walker) gather(what string, all []wanted) error {
	if slices.ContainsFunc(all, func(s wanted) bool { return s.address>>48 != 0 }) {
		return w.gatherEach(what, all) // no address of a process, so that sums may overflow
	}
	order := make([]int32, len(all))
	for i := range order {
		order[i] = int32(i)
	}
	byAddress := func(a, b int32) int { return cmp.Compare(all[a].address, all[b].address) }
	if !slices.IsSortedFunc(order, byAddress) {
		slices.SortFunc(order, byAddress)
	}
	runs := runsOf(all, order)
	err := w.t.memory.read(runs)
	if errors.Is(err, errUnmapped) {
		return w.gatherEach(what, all)
	}
	if err != nil {
		return err
	}
	next := 0
	for _, i := range order {
		if all[i].size == 0 {
			continue
		}
		for all[i].address >= runs[next].address+uint64(len(runs[next].to)) {
			next++
		}
		from := int(all[i].address - runs[next].address)
		all[i].bytes = runs[next].to[from : from+all[i].size]
	}
	return nil
}

// runsOf are the pieces that hold all structures, by address.
func runsOf(all []wanted, order []int32) (runs []span) {
	var ranges []Range
	total := uint64(0)
	for _, i := range order {
		start, end := all[i].address, all[i].address+uint64(all[i].size)
		if n := len(ranges); n > 0 && start <= ranges[n-1].End+maxGap && max(end, ranges[n-1].End)-ranges[n-1].Start <= maxRun {
			total += max(end, ranges[n-1].End) - ranges[n-1].End
			ranges[n-1].End = max(end, ranges[n-1].End)
			continue
		}
		ranges = append(ranges, Range{start, end})
		total += end - start
	}
	room := make([]byte, total)
	for _, r := range ranges {
		n := r.End - r.Start
		runs = append(runs, span{r.Start, room[:n:n]})
		room = room[n:]
	}
	return runs
}

func (w *walker) gatherEach(what string, all []wanted) error {
	spans := make([]span, len(all))
	for i := range all {
		all[i].bytes = make([]byte, all[i].size)
		spans[i] = span{all[i].address, all[i].bytes}
	}
	return w.readEach(what, spans)
}
