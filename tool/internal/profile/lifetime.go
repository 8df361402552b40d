package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// WriteLifetimes prints how long freed objects of each stack lived, the stacks that allocate most
// first, at most `limit` (0: all).
func WriteLifetimes(w io.Writer, h Heap, b Built, limit, width int) {
	order := make([]int, 0, len(b.Stacks))
	for i, s := range h.Samples.Stacks {
		if s.Freed.Objects > 0 && i < len(b.Stacks) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(h.Samples.Stacks[b].Allocated.Bytes, h.Samples.Stacks[a].Allocated.Bytes)
	})
	if len(order) == 0 {
		fmt.Fprintln(w, "No sampled object was freed.")
		return
	}
	more := 0
	if limit > 0 && len(order) > limit {
		order, more = order[:limit], len(order)-limit
	}
	t := term.Table{Header: []string{" ALLOCATED", " FREED", " HALF WITHIN", " 90 % WITHIN", "1 ms to 2.3 h", "STACK (innermost first)"}, Spare: []int{3, 2}, Fold: true}
	for _, i := range order {
		s := h.Samples.Stacks[i]
		t.Rows = append(t.Rows, []string{term.Bytes(uint64(s.Allocated.Bytes)), term.Percent(s.Freed.Bytes, s.Allocated.Bytes),
			within(s, 0.5), within(s, 0.9), spark(s.Lifetimes), Chain(NamesOf(b.Stacks[i]), frameLimit)})
	}
	t.Write(w, width)
	if more > 0 {
		fmt.Fprintf(w, "and %d more stacks\n", more)
	}
}

// within is the time after which a share of the freed objects was freed, rounded up to a power of two
// of milliseconds.
func within(s inspect.Stack, share float64) string {
	total, sum := 0.0, 0.0
	for _, n := range s.Lifetimes {
		total += n
	}
	for i, n := range s.Lifetimes {
		if sum += n; sum >= share*total && total > 0 {
			if i == len(s.Lifetimes)-1 {
				return "> " + brief(time.Millisecond<<(i-1))
			}
			return brief(time.Millisecond << i)
		}
	}
	return "-"
}

// brief shows a time with two digits.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// spark draws a histogram in a line.
func spark(values []float64) string {
	shades := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(append(values, 0))
	var b strings.Builder
	for _, v := range values {
		switch {
		case v <= 0:
			b.WriteByte('.')
		default:
			b.WriteRune(shades[min(len(shades)-1, int(v/most*float64(len(shades))))])
		}
	}
	return b.String()
}
