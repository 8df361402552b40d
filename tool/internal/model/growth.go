package model

import (
	"math"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// holes is the memory that growth leaves: a size class that had more objects before keeps the
// pages of its slabs, because the remaining objects are spread over them. at is the heap on the path to
// count; allocators without size classes reuse free memory for other sizes.
func holes(a cost.Allocator, at func(count uint64) cost.Heap, count uint64) float64 {
	if a.Name == cost.Glibc.Name {
		return 0
	}
	const steps, perDoubling = 48, 4
	most, each := map[uint64]float64{}, map[uint64]float64{}
	now := map[uint64]float64{}
	for i := range steps {
		n := uint64(float64(count) / math.Pow(2, float64(i)/perDoubling))
		if n == 0 {
			break
		}
		here := map[uint64]float64{}
		for size, blocks := range at(n) {
			p := a.Place(size)
			here[p.Usable] += blocks
			each[p.Usable] = p.Resident
		}
		for class, blocks := range here {
			most[class] = math.Max(most[class], blocks)
		}
		if i == 0 {
			now = here
		}
	}
	sum := 0.0
	for class, blocks := range most {
		if class < 2*cost.Page { // larger blocks give their pages back
			sum += (blocks - now[class]) * each[class]
		}
	}
	return sum
}
