package leaks

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A site allocates objects of one size at a rate; each lives for an exponentially distributed time, or
// for ever.
type site struct {
	perMinute float64 // bytes
	size      float64
	life      time.Duration // mean; 0: never freed
}

// simulate samples the allocations of the sites, one in `rate` bytes, and reads the samples `readings` times over `whole`.
func simulate(seed uint64, sites []site, rate float64, whole time.Duration, readings int) *Watch {
	random := rand.New(rand.NewPCG(seed, 7))
	type object struct {
		site     int
		from, to time.Duration
	}
	var all []object
	for i, s := range sites {
		chance := 1 - math.Exp(-s.size/rate)
		every := time.Duration(float64(time.Minute) / (s.perMinute / s.size * chance))
		for at := time.Duration(0); ; {
			if at += time.Duration(random.ExpFloat64() * float64(every)); at > whole {
				break
			}
			to := time.Duration(math.MaxInt64)
			if s.life > 0 {
				to = at + time.Duration(random.ExpFloat64()*float64(s.life))
			}
			all = append(all, object{i, at, to})
		}
	}
	w := &Watch{}
	for k := 1; k <= readings; k++ {
		now := whole * time.Duration(k) / time.Duration(readings)
		s := &inspect.Samples{Generation: 1, For: now, Stacks: make([]inspect.Stack, len(sites))}
		for _, o := range all {
			if o.from > now {
				continue
			}
			size := sites[o.site].size
			objects := 1 / (1 - math.Exp(-size/rate))
			add := func(a *inspect.Amount) {
				a.Samples, a.Objects, a.Bytes = a.Samples+1, a.Objects+objects, a.Bytes+objects*size
			}
			add(&s.Stacks[o.site].Allocated)
			if o.to <= now {
				add(&s.Stacks[o.site].Freed)
			} else {
				s.Live = append(s.Live, inspect.Sample{Stack: o.site, Bytes: uint64(size), Objects: objects, At: o.from})
			}
		}
		w.Add(s)
	}
	return w
}

// churn is 1 GB a minute in ten sites, with lives from a tenth of a second to 20 seconds.
func churn() (sites []site) {
	for i := range 10 {
		sites = append(sites, site{1e8, float64(int(64) << (i % 5)), time.Duration(math.Pow(200, float64(i)/9) * 1e8)})
	}
	return sites
}

// A leak of 1 MB a minute under 1 GB a minute of churn is first within two minutes, and its rate is
// within its error.
func TestPlantedLeakIsFirst(t *testing.T) {
	const seeds = 20
	first, covered := 0, 0
	for seed := range uint64(seeds) {
		w := simulate(seed, append(churn(), site{1e6, 100, 0}), 32<<10, 2*time.Minute, 24)
		suspects := w.Suspects()
		if len(suspects) > 0 && suspects[0].Stack == 10 {
			first++
			if s := suspects[0]; s.AtLeast < 1e6 && s.PerMinute < 2e6 && s.Confidence > 0.999 && s.Old > 0.3*s.InUse {
				covered++
			}
		}
	}
	if first != seeds || covered < seeds-1 {
		t.Errorf("the leak was first in %d of %d, and its figures right in %d", first, seeds, covered)
	}
}

// Sites without a leak are not reported as certain: of a hundred sites, about one may pass the bound of 99 %.
func TestChurnAloneIsNotSure(t *testing.T) {
	sure, judged := 0, 0
	for seed := range uint64(10) {
		w := simulate(seed, churn(), 32<<10, 2*time.Minute, 24)
		for _, s := range w.Suspects() {
			judged++
			if s.AtLeast > 0 && s.PerMinute > 1e5 {
				sure++
			}
		}
	}
	if sure > 6 {
		t.Errorf("%d of %d sites that do not leak are said to grow for sure", sure, judged)
	}
}

func TestSlopeIgnoresPeaks(t *testing.T) {
	var readings []reading
	for i := range 21 {
		bytes := 1000 * float64(i)
		if i == 10 {
			bytes = 1e9
		}
		readings = append(readings, reading{at: time.Duration(i) * time.Minute, inUse: map[int]float64{0: bytes}})
	}
	if got := slope(readings, 0); math.Abs(got-1000) > 1e-6 {
		t.Errorf("slope %v", got)
	}
}

func TestSamplingThatBeginsAnew(t *testing.T) {
	w := &Watch{}
	if !w.Add(&inspect.Samples{Generation: 1}) || w.Add(&inspect.Samples{Generation: 2}) || w.Readings() != 1 {
		t.Error("readings of two runs of sampling were mixed")
	}
	if w.Suspects() != nil {
		t.Error("one reading says nothing")
	}
	if got := normal(bound); math.Abs(got-0.995) > 1e-4 {
		t.Errorf("bound is the quantile of %v", got)
	}
	if !slices.IsSorted([]float64{normal(-3), normal(0), normal(3)}) {
		t.Error("normal does not rise")
	}
}

func TestOneStackGrowsAndTwoGrow(t *testing.T) {
	for sure, want := range map[int]string{0: "these may grow:", 1: "\n1 stack grows with 99 %", 2: "\n2 stacks grow with 99 %"} {
		r := Report{Title: "process 812", Readings: fewestReadings}
		for i := range 2 {
			g := ReportStack{Stack: []string{"site"}, PerMinute: 1 << 20, InUse: 1 << 20}
			if i < sure {
				g.AtLeast = 1 << 10
			}
			r.Stacks = append(r.Stacks, g)
		}
		var out bytes.Buffer
		r.write(cli.Env{Stdout: &out})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%d of two stacks: %s", sure, out.String())
		}
	}
}
