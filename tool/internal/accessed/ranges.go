package accessed

import (
	"cmp"
	"slices"
)

// merged sorts ranges, and joins those with less than gap bytes between them.
func merged(ranges []Range, gap uint64) (out []Range) {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range ranges {
		if last := len(out) - 1; last >= 0 && r.Start <= out[last].End+gap {
			out[last].End = max(out[last].End, r.End)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// overlap is the first part of r that belongs to one of the ranges, which are sorted and disjoint.
func overlap(ranges []Range, r Range) (Range, bool) {
	i, _ := slices.BinarySearchFunc(ranges, r.Start, func(a Range, start uint64) int {
		if a.End <= start {
			return -1
		}
		return 1
	})
	if i == len(ranges) || ranges[i].Start >= r.End {
		return Range{}, false
	}
	return Range{max(ranges[i].Start, r.Start), min(ranges[i].End, r.End)}, true
}
