package scenarios

import "math"

// A bucket is one value and the number of measurements with that value.
type bucket struct {
	at    float64
	count uint64
}

// A histogram is a list of buckets in ascending order of their values.
type histogram []bucket

// quantile is the least value that at least the share q of the values does not exceed.
func (h histogram) quantile(q float64) float64 {
	var total, below uint64
	for _, b := range h {
		total += b.count
	}
	for _, b := range h {
		below += b.count
		if float64(below) >= q*float64(total) {
			return b.at
		}
	}
	return math.NaN()
}
