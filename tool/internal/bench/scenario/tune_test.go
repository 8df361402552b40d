package scenario

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/cli"
)

// tuned are simulated results: the RSS of each contender, by factor.
func tuned(factors map[string]float64) *bench.Results {
	r := &bench.Results{Rows: []bench.Row{{Phase: "p", Metric: "RSS", Unit: "bytes", Better: bench.Lower}}}
	for _, name := range []string{"granary", "granary:dirty_decay_ms=0", "granary:dirty_decay_ms=100", "granary:cache_bytes=262144", "granary:cache=false", "granary:dirty_decay_ms=100+cache_bytes=262144"} {
		factor, ok := factors[name]
		if !ok {
			continue
		}
		r.Contenders = append(r.Contenders, allocators.Contender{Name: name, Path: "/lib/g.so", Env: []string{"GRANARY_CONF=x"}})
		for round := range 5 {
			var s bench.Sample
			s.Set("p", "RSS", 1e8*factor*(1+0.001*float64((round*3+len(name))%5)))
			r.Add(name, round, s)
		}
	}
	return r
}

func TestOnlySettingsShownToHelpAreChosenTheBestValueOfEach(t *testing.T) {
	goal, _ := advice.Find("rss")
	tried := candidates("granary", "rss")
	r := tuned(map[string]float64{"granary": 1, "granary:dirty_decay_ms=0": 0.9, "granary:dirty_decay_ms=100": 0.8, "granary:cache_bytes=262144": 0.95, "granary:cache=false": 0.1})
	got := strings.Join(improving(r, goal, "granary", tried), "+")
	if got != "dirty_decay_ms=100+cache_bytes=262144" {
		t.Errorf("chosen %s", got)
	}
	same := tuned(map[string]float64{"granary": 1, "granary:dirty_decay_ms=0": 1})
	if got := improving(same, goal, "granary", tried); len(got) != 0 {
		t.Errorf("noise is chosen: %q", got)
	}
	var out bytes.Buffer
	effects(&out, r, "granary", tried)
	if !strings.Contains(out.String(), "a mistake: no caches") || !strings.Contains(out.String(), "0.800") {
		t.Errorf("%s", out.String())
	}
}

func TestTheConclusionSaysByHowMuchOrThatNothingHelps(t *testing.T) {
	goal, _ := advice.Find("rss")
	both := "granary:dirty_decay_ms=100+cache_bytes=262144"
	var out bytes.Buffer
	if err := conclude(&out, tuned(map[string]float64{"granary": 1, both: 0.75}), goal, both, "granary", "redis"); err != nil || !strings.Contains(out.String(), "% less memory than granary as it is") || !strings.Contains(out.String(), "redis.service.d") {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	if err := conclude(&out, tuned(map[string]float64{"granary": 1, both: 1.01}), goal, both, "granary", "redis"); err != nil || !strings.Contains(out.String(), "keep granary as it is") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestTuneRunsEverySettingOnARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server several times")
	}
	var out bytes.Buffer
	err := command(context.Background(), t, serve(sleeper(t)), cli.Env{Stdout: &out, Stderr: io.Discard, Environ: os.Environ()}, "--tune", "glibc", "--rounds", "2")
	if err != nil || !strings.Contains(out.String(), "MALLOC_ARENA_MAX=2") || !strings.Contains(out.String(), "a mistake: too few arenas") {
		t.Errorf("%v\n%s", err, out.String())
	}
	err = command(context.Background(), t, serve(sleeper(t)), cli.Env{Stdout: &out, Stderr: io.Discard}, "--tune", "rpmalloc")
	if err == nil || !strings.Contains(err.Error(), "it is not known which settings of rpmalloc matter") {
		t.Errorf("err = %v", err)
	}
}
