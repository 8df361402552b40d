package result

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Confidence is the level of every interval that the benchmarks print. It is above 95 % so that at least
// 95 of 100 comparisons of an allocator with itself show no difference.
const Confidence = 0.98

// Quantile is the value below which the share q of values is, interpolated linearly between order
// statistics (the definition of R's type 7). It is NaN for no values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return quantileSorted(slices.Sorted(slices.Values(values)), q)
}

func quantileSorted(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// Median is the middle value, or the mean of the two middle ones.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Mean is the arithmetic mean; NaN for no values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Deviation is the sample standard deviation; NaN for fewer than two values.
func Deviation(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	mean, sum := Mean(values), 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// GeoMean is the geometric mean of positive values; NaN for none or for a value that is not positive.
func GeoMean(values []float64) float64 {
	logs := make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return math.NaN()
		}
		logs[i] = math.Log(v)
	}
	return math.Exp(Mean(logs))
}

// Interval is a range with both ends.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Holds reports whether v is inside the interval.
func (i Interval) Holds(v float64) bool { return i.Low <= v && v <= i.High }

// Range is the least and the greatest value.
func Range(values []float64) Interval {
	if len(values) == 0 {
		return Interval{math.NaN(), math.NaN()}
	}
	return Interval{slices.Min(values), slices.Max(values)}
}

const resamples = 2000

// Bootstrap is the percentile bootstrap interval of statistic at the given level. Equal seeds give
// equal intervals.
func Bootstrap(values []float64, statistic func([]float64) float64, level float64, seed uint64) Interval {
	if len(values) == 0 {
		return Interval{math.NaN(), math.NaN()}
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(values))))
	results := make([]float64, resamples)
	sample := make([]float64, len(values))
	for i := range results {
		for j := range sample {
			sample[j] = values[rng.IntN(len(values))]
		}
		results[i] = statistic(sample)
	}
	slices.Sort(results)
	tail := (1 - level) / 2
	return Interval{quantileSorted(results, tail), quantileSorted(results, 1-tail)}
}

// Comparison is the ratio of two series measured in the same rounds.
type Comparison struct {
	Ratio    float64  `json:"ratio"`    // geometric mean of the ratios of the rounds
	Interval Interval `json:"interval"` // at level Confidence; unbounded for a single round
	Rounds   int      `json:"rounds"`
	// Scatter is the standard deviation of the logarithm of the ratio of a round.
	Scatter float64 `json:"scatter"`
}

// Differs reports whether the data show a difference: the interval of the ratio does not contain 1.
func (c Comparison) Differs() bool { return c.Rounds > 0 && !c.Interval.Holds(1) }

// Compare returns the ratio a/b of paired values with Student's interval of its logarithm. Pairing by
// round removes an effect that slows a whole round; the logarithm makes a/b and b/a symmetric. A bootstrap
// interval would be too narrow for the three to ten rounds of a benchmark.
func Compare(a, b []float64) Comparison {
	logs := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			logs = append(logs, math.Log(a[i]/b[i]))
		}
	}
	n := len(logs)
	if n == 0 {
		return Comparison{Ratio: math.NaN(), Interval: Interval{math.NaN(), math.NaN()}}
	}
	mean := Mean(logs)
	if n == 1 {
		return Comparison{math.Exp(mean), Interval{0, math.MaxFloat64}, 1, math.NaN()}
	}
	half := margin(Deviation(logs), n)
	return Comparison{math.Exp(mean), Interval{math.Exp(mean - half), math.Exp(mean + half)}, n, Deviation(logs)}
}

// margin is half the width of the interval of the mean logarithm of n ratios that scatter so.
func margin(scatter float64, n int) float64 {
	return StudentQuantile((1+Confidence)/2, float64(n-1)) * scatter / math.Sqrt(float64(n))
}

// mostRounds is the largest number that RoundsToTell returns.
const mostRounds = 1000

// RoundsToTell estimates the total number of rounds that show a difference as large as effect (0.03 is 3
// %), if further rounds scatter like the measured ones. It returns false if a thousand rounds are not
// enough, or if the scatter is unknown.
func (c Comparison) RoundsToTell(effect float64) (int, bool) {
	if math.IsNaN(c.Scatter) || c.Rounds < 2 || effect <= 0 {
		return 0, false
	}
	for n := 2; n <= mostRounds; n++ {
		if margin(c.Scatter, n) < math.Log1p(effect) {
			return n, true
		}
	}
	return 0, false
}

// CompareApart returns the ratio a/b of values that were not measured in the same rounds, such as two
// results of different days, with Welch's interval of its logarithm.
func CompareApart(a, b []float64) Comparison {
	x, y := logarithms(a), logarithms(b)
	if len(x) == 0 || len(y) == 0 {
		return Comparison{Ratio: math.NaN(), Interval: Interval{math.NaN(), math.NaN()}, Scatter: math.NaN()}
	}
	mean, rounds := Mean(x)-Mean(y), min(len(x), len(y))
	if rounds < 2 {
		return Comparison{math.Exp(mean), Interval{0, math.MaxFloat64}, rounds, math.NaN()}
	}
	nx, ny := float64(len(x)), float64(len(y))
	vx, vy := Deviation(x)*Deviation(x)/nx, Deviation(y)*Deviation(y)/ny
	half := 0.0
	if vx+vy > 0 {
		df := (vx + vy) * (vx + vy) / (vx*vx/(nx-1) + vy*vy/(ny-1))
		half = StudentQuantile((1+Confidence)/2, df) * math.Sqrt(vx+vy)
	}
	return Comparison{math.Exp(mean), Interval{math.Exp(mean - half), math.Exp(mean + half)}, rounds, math.Sqrt((vx + vy) * float64(rounds))}
}

// logarithms are those of the positive values.
func logarithms(values []float64) []float64 {
	var out []float64
	for _, v := range values {
		if v > 0 {
			out = append(out, math.Log(v))
		}
	}
	return out
}
