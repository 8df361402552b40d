package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// results are simulated: slower is the factor of each allocator's throughput, larger that of its RSS.
func simulated(rounds int, noise float64, slower, larger map[string]float64) *result.Results {
	rng := rand.New(rand.NewPCG(5, 6))
	r := &result.Results{Rows: []result.Row{
		{Phase: "a", Metric: "throughput", Unit: "1/s", Better: result.Higher}, {Phase: "b", Metric: "throughput", Unit: "1/s", Better: result.Higher},
		{Phase: "a", Metric: "RSS", Unit: "bytes", Better: result.Lower}, {Phase: "a", Metric: "seen", Unit: "count"},
	}}
	for _, name := range []string{"glibc", "jemalloc", "granary"} {
		r.Allocators = append(r.Allocators, allocators.Allocator{Name: name, Path: "/lib/" + name + ".so", System: name == "glibc"})
	}
	for round := range rounds {
		for _, c := range r.Allocators {
			var s result.Sample
			wobble := func() float64 { return 1 + noise*rng.NormFloat64() }
			s.Set("a", "throughput", 1000/slower[c.Name]*wobble())
			s.Set("b", "throughput", 50/slower[c.Name]*wobble())
			s.Set("a", "RSS", 1e6*larger[c.Name]*wobble())
			r.Add(c.Name, round, s)
		}
	}
	return r
}

var noneSlower = map[string]float64{"glibc": 1, "jemalloc": 1, "granary": 1}

func judge(t *testing.T, r *result.Results, goal string) Verdict {
	t.Helper()
	g, err := Find(goal)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := Judge(r, g)
	if !ok {
		t.Fatal("no verdict")
	}
	return v
}

func TestTheBestIsNamedWithByHowMuch(t *testing.T) {
	r := simulated(7, 0.005, map[string]float64{"glibc": 1.5, "jemalloc": 1.1, "granary": 1}, map[string]float64{"glibc": 1, "jemalloc": 1.2, "granary": 1.3})
	v := judge(t, r, "throughput")
	if v.Rows != 2 || v.Standings[0].Allocator.Name != "granary" || math.Abs(v.Standings[2].Cost-1.5) > 0.02 || math.Abs(v.Standings[1].ToBest.Ratio-1.1) > 0.01 {
		t.Errorf("%+v", v)
	}
	text := strings.Join(v.Text(), " ")
	if !strings.Contains(text, "granary. jemalloc needs ") || !strings.Contains(text, "% more time for the same work (98 % interval +") {
		t.Errorf("said %q", text)
	}
	if v := judge(t, r, "rss"); v.Rows != 1 || v.Standings[0].Allocator.Name != "glibc" {
		t.Errorf("%+v", v)
	}
}

func TestEqualsAreCalledEqualWithWhatWouldTell(t *testing.T) {
	v := judge(t, simulated(5, 0.05, noneSlower, noneSlower), "throughput")
	text := strings.Join(v.Text(), " ")
	if !strings.Contains(text, ": no difference shown between") || !strings.Contains(text, " in all would show a difference of 3 %") {
		t.Errorf("said %q", text)
	}
	one := judge(t, simulated(1, 0.05, noneSlower, noneSlower), "throughput")
	if text := strings.Join(one.Text(), " "); !strings.Contains(text, "one round cannot show any") {
		t.Errorf("said %q", text)
	}
}

// Two rounds bound little: neither an interval to millions nor hundreds of rounds are worth a reader's time.
func TestWhatTwoRoundsCannotShowIsReportedWithoutHugeNumbers(t *testing.T) {
	if text := span(result.Interval{Low: 0.2, High: 2045613}); text != "98 % interval from 0.20 times on: too few rounds to bound it" {
		t.Errorf("said %q", text)
	}
	v := judge(t, simulated(2, 0.9, noneSlower, noneSlower), "throughput")
	if text := strings.Join(v.Text(), " "); !strings.Contains(text, "the rounds differ too much to show a difference of 3 % on this machine") {
		t.Errorf("said %q", text)
	}
}

func TestAAllocatorThatDidNotFinishIsNotJudged(t *testing.T) {
	r := simulated(5, 0.01, noneSlower, noneSlower)
	r.Observations = deleteOf(r.Observations, "granary", "b")
	v := judge(t, r, "throughput")
	if last := v.Standings[2]; last.Allocator.Name != "granary" || last.Missing != 1 {
		t.Errorf("%+v", v.Standings)
	}
	if text := strings.Join(v.Text(), " "); !strings.Contains(text, "did not finish: granary") {
		t.Errorf("said %q", text)
	}
	if _, ok := Judge(&result.Results{}, Goals[0]); ok {
		t.Error("nothing measured has a verdict")
	}
}

func deleteOf(all []result.Observation, allocator, phase string) []result.Observation {
	var out []result.Observation
	for _, o := range all {
		if o.Allocator != allocator || o.Phase != phase {
			out = append(out, o)
		}
	}
	return out
}

func TestPairsMirror(t *testing.T) {
	p := Pairs(simulated(5, 0.01, map[string]float64{"glibc": 2, "jemalloc": 1, "granary": 1}, noneSlower), Goals[1])
	if !p[0][1].Differ || math.Abs(p[0][1].Ratio*p[1][0].Ratio-1) > 1e-9 || p[1][1].Text() != "≈1.000" || p[0][2].Ratio < 1.9 {
		t.Errorf("%+v", p)
	}
}

func TestDeployLinesAreExact(t *testing.T) {
	c := allocators.Allocator{Name: "granary:x", Path: "/usr/lib/libgranary.so", Env: []string{`GRANARY_CONF=a:1,b:"2"`}}
	want := map[string]string{
		"systemd":    "# /etc/systemd/system/redis.service.d/allocator.conf\n[Service]\nEnvironment=\"GRANARY_CONF=a:1,b:\\\"2\\\"\"\nEnvironment=\"LD_PRELOAD=/usr/lib/libgranary.so\"\n# then: systemctl daemon-reload && systemctl restart redis",
		"Docker":     "# in the Dockerfile, with the library beside it\nCOPY libgranary.so /usr/lib/libgranary.so\nENV GRANARY_CONF=\"a:1,b:\\\"2\\\"\"\nENV LD_PRELOAD=\"/usr/lib/libgranary.so\"",
		"Kubernetes": "# in the container of the pod; the image holds the library\nenv:\n  - name: GRANARY_CONF\n    value: \"a:1,b:\\\"2\\\"\"\n  - name: LD_PRELOAD\n    value: \"/usr/lib/libgranary.so\"",
		"a shell":    `GRANARY_CONF='a:1,b:"2"' LD_PRELOAD=/usr/lib/libgranary.so redis`,
	}
	for _, recipe := range Deploy(c, "redis") {
		if recipe.Lines != want[recipe.Where] {
			t.Errorf("%s:\n%s\nwant\n%s", recipe.Where, recipe.Lines, want[recipe.Where])
		}
	}
	if got := Deploy(allocators.Allocator{Name: "glibc", System: true}, "x"); len(got) != 1 || !strings.Contains(got[0].Lines, "Nothing to do") {
		t.Errorf("%+v", got)
	}
	if got := Deploy(allocators.Allocator{Name: "glibc:a", System: true, Env: []string{"MALLOC_ARENA_MAX=2"}}, "x"); strings.Contains(got[1].Lines, "COPY") ||
		!strings.Contains(got[1].Lines, "ENV MALLOC_ARENA_MAX=\"2\"") {
		t.Errorf("%+v", got)
	}
}

func TestAllocatorsThatAreTheSameAreNotToldApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	told := map[string]int{}
	const trials = 400
	for range trials {
		r := &result.Results{}
		for _, phase := range []string{"a", "b", "c"} {
			r.Rows = append(r.Rows, result.Row{Phase: phase, Metric: "RSS", Unit: "bytes", Better: result.Lower})
		}
		for _, name := range []string{"A", "B"} {
			r.Allocators = append(r.Allocators, allocators.Allocator{Name: name})
		}
		for round := range 5 {
			drift := 1 + 0.1*rng.Float64()
			for _, c := range r.Allocators {
				var s result.Sample
				for _, row := range r.Rows {
					s.Set(row.Phase, row.Metric, 1e8*drift*(1+0.02*rng.NormFloat64()))
				}
				r.Add(c.Name, round, s)
			}
		}
		v, ok := Judge(r, Goals[0])
		if !ok {
			t.Fatal("no verdict")
		}
		if v.Standings[1].ToBest.Differs() {
			told[v.Standings[0].Allocator.Name]++
		}
	}
	if n := told["A"] + told["B"]; n > trials*5/100 {
		t.Errorf("the same allocator is told from itself in %d of %d trials", n, trials)
	}
}

// Two rounds that scatter give intervals over orders of magnitude, which say nothing in digits.
func TestAnIntervalWithoutBoundsIsNotPrinted(t *testing.T) {
	wide := result.Comparison{Ratio: 1.2, Rounds: 2, Interval: result.Interval{Low: 0.001, High: 488978}}
	for _, got := range []string{ratioText(wide), interval(Change{Comparison: wide}), span(wide.Interval)} {
		if !strings.Contains(got, "too few rounds") || strings.Contains(got, "488") {
			t.Errorf("it prints %q", got)
		}
	}
	narrow := result.Comparison{Ratio: 1.2, Rounds: 3, Interval: result.Interval{Low: 1.1, High: 1.3}}
	if got := ratioText(narrow); !strings.Contains(got, "1.200 (1.100 to 1.300)") {
		t.Errorf("it prints %q", got)
	}
}
