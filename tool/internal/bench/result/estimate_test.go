package result

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(want) && math.IsNaN(got) {
		return
	}
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestQuantileKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, math.NaN()},
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{1, 2, 3, 4, 5}, 0, 1},
		{[]float64{1, 2, 3, 4, 5}, 1, 5},
		{[]float64{1, 2, 3, 4, 5}, 0.9, 4.6},
		{[]float64{10, 20, 30, 40}, 0.25, 17.5},
	} {
		near(t, "Quantile", Quantile(c.values, c.q), c.want, 1e-12)
	}
}

func TestQuantileLeavesItsInputInOrder(t *testing.T) {
	values := []float64{3, 1, 2}
	Quantile(values, 0.5)
	if values[0] != 3 || values[1] != 1 {
		t.Errorf("input became %v", values)
	}
}

func TestMeansKnownAnswers(t *testing.T) {
	near(t, "Mean", Mean([]float64{1, 2, 6}), 3, 1e-12)
	near(t, "Mean of none", Mean(nil), math.NaN(), 0)
	near(t, "GeoMean", GeoMean([]float64{1, 4, 16}), 4, 1e-12)
	near(t, "GeoMean of a ratio and its inverse", GeoMean([]float64{0.5, 2}), 1, 1e-12)
	near(t, "GeoMean with zero", GeoMean([]float64{0, 2}), math.NaN(), 0)
	near(t, "GeoMean of none", GeoMean(nil), math.NaN(), 0)
	near(t, "Deviation", Deviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}), math.Sqrt(32.0/7), 1e-12)
	near(t, "Deviation of one", Deviation([]float64{2}), math.NaN(), 0)
}

func TestRange(t *testing.T) {
	if got := Range([]float64{3, 1, 2}); got != (Interval{1, 3}) {
		t.Errorf("Range = %v", got)
	}
}

func TestStudentQuantileMatchesPublishedTables(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.975, 1, 12.7062}, {0.975, 2, 4.3027}, {0.975, 4, 2.7764}, {0.975, 10, 2.2281},
		{0.99, 1, 31.8205}, {0.99, 4, 3.7469}, {0.99, 30, 2.4573}, {0.95, 120, 1.6577},
	} {
		near(t, "StudentQuantile", StudentQuantile(c.p, c.df), c.want, 1e-3)
	}
	near(t, "StudentCDF(0)", StudentCDF(0, 5), 0.5, 1e-12)
	near(t, "symmetry", StudentCDF(-1.3, 7)+StudentCDF(1.3, 7), 1, 1e-12)
	near(t, "Cauchy", StudentCDF(1, 1), 0.75, 1e-9)
}

func TestBootstrapIsRepeatableAndBounded(t *testing.T) {
	values := []float64{10, 11, 12, 13, 30}
	a, b := Bootstrap(values, Median, 0.95, 1), Bootstrap(values, Median, 0.95, 1)
	if a != b {
		t.Errorf("equal seeds gave %v and %v", a, b)
	}
	if a.Low < 10 || a.High > 30 || !a.Holds(12) {
		t.Errorf("interval %v of the median 12", a)
	}
	if got := Bootstrap([]float64{5, 5, 5}, Median, 0.95, 1); got != (Interval{5, 5}) {
		t.Errorf("constant values gave %v", got)
	}
}

func TestBootstrapCoversTheTrueValue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for trial := range 200 {
		values := make([]float64, 40)
		for i := range values {
			values[i] = 100 + rng.NormFloat64()
		}
		if Bootstrap(values, Median, 0.95, uint64(trial)).Holds(100) {
			covered++
		}
	}
	if covered < 180 {
		t.Errorf("a 95 %% interval contained the true value in %d of 200 trials", covered)
	}
}

func TestCompareKnownAnswers(t *testing.T) {
	same := Compare([]float64{2, 4, 8}, []float64{1, 2, 4})
	near(t, "ratio of doubles", same.Ratio, 2, 1e-12)
	if !same.Differs() || same.Rounds != 3 {
		t.Errorf("an exact factor of two is a difference: %+v", same)
	}
	if c := Compare([]float64{5, 5, 5}, []float64{5, 5, 5}); c.Ratio != 1 || c.Differs() {
		t.Errorf("equal values differ: %+v", c)
	}
	if c := Compare([]float64{3}, []float64{1}); c.Differs() || c.Rounds != 1 {
		t.Errorf("one round cannot show a difference: %+v", c)
	}
	if c := Compare(nil, nil); c.Differs() || !math.IsNaN(c.Ratio) {
		t.Errorf("no rounds: %+v", c)
	}
	// log ratios 0.1, 0.2, 0.3: mean 0.2, s = 0.1, half = t(0.99; 2) * 0.1/sqrt(3) = 6.9646 * 0.057735
	c := Compare([]float64{math.Exp(.1), math.Exp(.2), math.Exp(.3)}, []float64{1, 1, 1})
	near(t, "low", math.Log(c.Interval.Low), 0.2-0.40210, 1e-4)
	near(t, "high", math.Log(c.Interval.High), 0.2+0.40210, 1e-4)
}

func TestCompareIsAMirror(t *testing.T) {
	a, b := []float64{10, 12, 11}, []float64{9, 13, 10}
	forth, back := Compare(a, b), Compare(b, a)
	near(t, "product", forth.Ratio*back.Ratio, 1, 1e-12)
	near(t, "bounds", forth.Interval.Low*back.Interval.High, 1, 1e-9)
}

// differences counts the trials in which the comparison of two simulated allocators, slower being the
// factor between them, shows a difference. Rounds drift together, as on a machine with neighbours.
func differences(trials, rounds int, slower, noise float64) int {
	rng := rand.New(rand.NewPCG(7, 7))
	found := 0
	for range trials {
		a, b := make([]float64, rounds), make([]float64, rounds)
		for i := range rounds {
			drift := 100 * (1 + 0.1*rng.Float64())
			a[i] = slower * drift * (1 + noise*rng.NormFloat64())
			b[i] = drift * (1 + noise*rng.NormFloat64())
		}
		if Compare(a, b).Differs() {
			found++
		}
	}
	return found
}

func TestAnAllocatorDoesNotDifferFromItself(t *testing.T) {
	for _, rounds := range []int{2, 3, 5, 9} {
		if found := differences(1000, rounds, 1, 0.02); found > 50 {
			t.Errorf("%d rounds: %d of 1000 comparisons with itself show a difference", rounds, found)
		}
	}
}

func TestAThreePercentSlowDownIsFound(t *testing.T) {
	if found := differences(1000, 7, 1.03, 0.01); found < 900 {
		t.Errorf("3 %% slower is found in %d of 1000 trials", found)
	}
}

func TestRoundsToTellKnownAnswers(t *testing.T) {
	// log ratios with s = 0.1: t(0.99; n-1) * 0.1 / sqrt(n) falls below log 1.03 = 0.02956 at n = 66:
	// n = 65 gives 2.3860 * 0.1 / 8.0623 = 0.029595, n = 66 gives 2.3851 * 0.1 / 8.1240 = 0.029359.
	c := Compare([]float64{math.Exp(.1), math.Exp(.2), math.Exp(.3)}, []float64{1, 1, 1})
	near(t, "scatter", c.Scatter, 0.1, 1e-12)
	if n, ok := c.RoundsToTell(0.03); !ok || n != 66 {
		t.Errorf("%d rounds, %v", n, ok)
	}
	exact := Compare([]float64{2, 2, 2}, []float64{1, 1, 1})
	if n, ok := exact.RoundsToTell(0.03); !ok || n != 2 {
		t.Errorf("without scatter %d rounds, %v", n, ok)
	}
	for _, c := range []Comparison{Compare([]float64{1}, []float64{1}), {Ratio: 1, Rounds: 3, Scatter: 50}} {
		if n, ok := c.RoundsToTell(0.03); ok {
			t.Errorf("%+v: %d rounds", c, n)
		}
	}
}

func TestAsManyRoundsAsSaidDoTell(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	series := func(n int, slower float64) (a, b []float64) {
		for range n {
			a, b = append(a, slower*(1+0.02*rng.NormFloat64())), append(b, 1+0.02*rng.NormFloat64())
		}
		return a, b
	}
	found := 0
	for range 200 {
		c := Compare(series(8, 1))
		n, ok := c.RoundsToTell(0.03)
		if !ok {
			t.Fatalf("%+v", c)
		}
		if Compare(series(n, 1.03)).Differs() {
			found++
		}
	}
	// The interval is then as wide as the effect, so about half of such runs detect it.
	if found < 70 {
		t.Errorf("as many rounds as said show the effect in %d of 200 runs", found)
	}
}

func TestABootstrapOfAStalledServerHoldsItsMedian(t *testing.T) {
	// Nine quiet rounds and one with a stall: the median does not move, the mean does.
	values := []float64{10, 10.1, 9.9, 10, 10.2, 9.8, 10, 10.1, 9.9, 60}
	if i := Bootstrap(values, Median, 0.95, 3); i.High > 10.2 || i.Low < 9.8 || !i.Holds(Median(values)) {
		t.Errorf("interval %v", i)
	}
	if m := Mean(values); m < 14 {
		t.Errorf("mean %v", m)
	}
}

func TestCompareApartKnownAnswers(t *testing.T) {
	// Means of the logarithms 0.2 and 0, s = 0.1 each, n = 3 each: Welch's df is 4, the standard error
	// 0.1 * sqrt(2/3) = 0.081650, t(0.99; 4) = 3.7469, half = 0.30594.
	a := []float64{math.Exp(.1), math.Exp(.2), math.Exp(.3)}
	b := []float64{math.Exp(-.1), 1, math.Exp(.1)}
	c := CompareApart(a, b)
	near(t, "ratio", math.Log(c.Ratio), 0.2, 1e-12)
	near(t, "low", math.Log(c.Interval.Low), 0.2-0.30594, 1e-4)
	near(t, "high", math.Log(c.Interval.High), 0.2+0.30594, 1e-4)
	if c := CompareApart([]float64{2}, []float64{1, 1}); c.Differs() || c.Ratio != 2 {
		t.Errorf("one round: %+v", c)
	}
	if c := CompareApart([]float64{5, 5}, []float64{5, 5}); c.Differs() || c.Ratio != 1 {
		t.Errorf("equal values: %+v", c)
	}
	if c := CompareApart(nil, b); !math.IsNaN(c.Ratio) || c.Differs() {
		t.Errorf("nothing: %+v", c)
	}
}

func TestTwoRunsOfTheSameDoNotDifferAndASlowDownIsFoundApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	trial := func(slower float64) bool {
		a, b := make([]float64, 7), make([]float64, 7)
		for i := range a {
			a[i], b[i] = slower*(1+0.01*rng.NormFloat64()), 1+0.01*rng.NormFloat64()
		}
		return CompareApart(a, b).Differs()
	}
	same, found := 0, 0
	for range 1000 {
		if trial(1) {
			same++
		}
		if trial(1.03) {
			found++
		}
	}
	if same > 50 || found < 900 {
		t.Errorf("of 1000 trials each, %d differ from themselves, and 3 %% is found in %d", same, found)
	}
}
