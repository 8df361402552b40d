package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
)

// tuned are simulated results: the RSS of each allocator, by factor.
func tuned(factors map[string]float64) *result.Results {
	r := &result.Results{Rows: []result.Row{{Phase: "p", Metric: "RSS", Unit: "bytes", Better: result.Lower}}}
	for _, name := range []string{"granary", "granary:dirty_decay_ms=0", "granary:dirty_decay_ms=100", "granary:cache_bytes=262144", "granary:cache=false",
		"granary:dirty_decay_ms=100+cache_bytes=262144"} {
		factor, ok := factors[name]
		if !ok {
			continue
		}
		r.Allocators = append(r.Allocators, allocators.Allocator{Name: name, Path: "/lib/g.so", Env: []string{"GRANARY_CONF=x"}})
		for round := range 5 {
			var s result.Sample
			s.Set("p", "RSS", 1e8*factor*(1+0.001*float64((round*3+len(name))%5)))
			r.Add(name, round, s)
		}
	}
	return r
}

func TestOnlySettingsShownToHelpAreChosenTheBestValueOfEach(t *testing.T) {
	goal, _ := report.Find("rss")
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
	if !strings.Contains(out.String(), "known as a mistake: no caches; no cost is shown here, and it is not proposed") || !strings.Contains(out.String(), "0.800") {
		t.Errorf("%s", out.String())
	}
}

// testdata/tune-jemalloc.json was recorded with `granary bench soak --tune new-jemalloc --goal cpu --quick --rounds 6
// --threads 16` on a busy machine: its memory is worth something, its times are not.
func TestARecordedSearchShowsWhatTooFewArenasCostJemalloc(t *testing.T) {
	data, err := os.ReadFile("testdata/tune-jemalloc.json")
	if err != nil {
		t.Fatal(err)
	}
	var r result.Results
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	tried := candidates("new-jemalloc", "cpu")
	var out bytes.Buffer
	effects(&out, &r, "new-jemalloc", tried)
	lines := strings.Split(out.String(), "\n")
	for setting, wanted := range map[string]string{
		"narenas=1": " 1.182 ", "narenas": "a mistake: too few arenas", "lg_tcache_max=22": "known as a mistake: too large a cache; no cost is shown here",
		"background_thread=true": " 1.382 ", "metadata_thp=auto": "≈1.008",
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, setting) && strings.Contains(line, wanted) }) {
			t.Errorf("%s: no %q in\n%s", setting, wanted, out.String())
		}
	}
	goal, _ := report.Find("rss")
	if got := improving(&r, goal, "new-jemalloc", tried); len(got) != 0 {
		t.Errorf("proposed: %q", got)
	}
}

func TestTheConclusionSaysByHowMuchOrThatNothingHelps(t *testing.T) {
	goal, _ := report.Find("rss")
	both := "granary:dirty_decay_ms=100+cache_bytes=262144"
	var out bytes.Buffer
	if err := conclude(&out, tuned(map[string]float64{"granary": 1, both: 0.75}), goal, both, "granary", "redis"); err != nil ||
		!strings.Contains(out.String(), "% less memory than granary as it is") || !strings.Contains(out.String(), "redis.service.d") {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	if err := conclude(&out, tuned(map[string]float64{"granary": 1, both: 1.01}), goal, both, "granary", "redis"); err != nil ||
		!strings.Contains(out.String(), "keep granary as it is") {
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
