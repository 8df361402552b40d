package cold

import (
	"cmp"
	"slices"
	"sort"
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

// overlaps calls visit for each part of r that belongs to one of the ranges, which are sorted and disjoint.
func overlaps(ranges []Range, r Range, visit func(part Range)) {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].End > r.Start })
	for ; i < len(ranges) && ranges[i].Start < r.End; i++ {
		visit(Range{max(ranges[i].Start, r.Start), min(ranges[i].End, r.End)})
	}
}
