package services

import "math"

// A bucket is a number of values at a value.
type bucket struct {
	at    float64
	count uint64
}

// A histogram is buckets in ascending order.
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
