package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

func TestTheProjectsOwnSuiteHasEveryScenarioWithWhatItTakes(t *testing.T) {
	suite, err := Read("../../../../bench/suites/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range All {
		if !s.Privileged && !slices.ContainsFunc(suite.Entries, func(e Entry) bool { return e.Name == s.Name }) {
			t.Errorf("the suite has no %s", s.Name)
		}
	}
	for _, entry := range suite.Entries {
		if entry.Seconds.Full <= 0 || entry.Seconds.Quick <= 0 {
			t.Errorf("%s: how long it takes is not said", entry.Name)
		}
		for _, s := range All {
			for _, args := range [][]string{entry.Args, entry.Quick} {
				fs := pflag.NewFlagSet(entry.Name, pflag.ContinueOnError)
				s.Declare(fs)
				if err := fs.Parse(args); s.Name == entry.Name && err != nil {
					t.Errorf("%s %q: %v", entry.Name, args, err)
				}
			}
		}
	}
}

// until runs `granary bench all` on a suite of the given text until ctx ends.
func until(ctx context.Context, t *testing.T, dir, text string, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "suite.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("bench all", pflag.ContinueOnError)
	act := Command.Setup(fs)
	if err := fs.Parse(append([]string{"--suite", path, "--out", dir, "--allocators", "glibc"}, args...)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := act(ctx, cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()}, nil)
	return out.String(), err
}

func all(t *testing.T, dir, text string, args ...string) (string, error) {
	t.Helper()
	return until(context.Background(), t, dir, text, args...)
}

const twoScenarios = `
[[scenario]]
name = "rax"
args = ["--source", "/no/such/folder"]
seconds = {full = 1, quick = 1}
[[scenario]]
name = "redis"
args = ["--requests", "1000", "--values", "3", "--parts", "fall", "--settle", "50ms"]
quick = ["--requests", "1000", "--values", "5", "--parts", "fall", "--settle", "50ms"]
seconds = {full = 1, quick = 0.5}
`

func rounds(t *testing.T, dir, name string) int {
	t.Helper()
	r, err := result.Read(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return r.Rounds
}

func TestASuiteGoesOnAfterAFailureAndIsTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	out, err := all(t, dir, twoScenarios, "--rounds", "1")
	if err == nil || !strings.Contains(err.Error(), "not measured: rax") || !strings.Contains(out, "there is no rax.c in /no/such/folder") {
		t.Fatalf("%v\n%s", err, out)
	}
	summary, readErr := os.ReadFile(filepath.Join(dir, "README.md"))
	if readErr != nil || !strings.Contains(string(summary), "[redis](redis/report.md)") || !strings.Contains(string(summary), "rounds: rax 0 of 1, redis 1 of 1; failed: rax.") {
		t.Errorf("%v\n%s", readErr, summary)
	}
	for _, name := range []string{"report.html", "report.md", "results.csv"} {
		if _, err := os.Stat(filepath.Join(dir, "redis", name)); err != nil {
			t.Error(err)
		}
	}
	if out, err := all(t, dir, twoScenarios, "--rounds", "1", "--only", "redis"); err != nil || !strings.Contains(out, "all rounds are finished") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := all(t, dir, twoScenarios, "--rounds", "2", "--only", "redis"); err != nil || rounds(t, dir, "redis") != 2 || !strings.Contains(out, "redis, round 2 of 2: glibc") {
		t.Errorf("%v\n%s", err, out)
	}
}

// both is a suite whose two scenarios work.
var both = strings.Replace(twoScenarios, `name = "rax"
args = ["--source", "/no/such/folder"]`, `name = "memcached"
args = ["--time", "200ms", "--rate", "500", "--connections", "2", "--settle", "50ms"]
quick = ["--time", "200ms", "--rate", "500", "--connections", "3", "--settle", "50ms"]`, 1)

func TestABudgetPicksSizesAndRoundsAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	// Three rounds of full size are forecast to take an hour, and one round of the short size ten seconds.
	text := strings.ReplaceAll(both, "seconds = {full = 1, quick = 0.5}", "seconds = {full = 1200, quick = 5}")
	text = strings.ReplaceAll(text, "seconds = {full = 1, quick = 1}", "seconds = {full = 1200, quick = 5}")
	out, err := all(t, dir, text, "--budget", "30s")
	if err != nil || !strings.Contains(out, "quick sizes: about") || !strings.Contains(out, "the budget of 30s bounds it") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"memcached", "redis"} {
		if n := rounds(t, dir, name); n < 1 {
			t.Errorf("%s has %d rounds", name, n)
		}
		r, _ := result.Read(filepath.Join(dir, name))
		if !strings.Contains(strings.Join(r.Notes, "\n"), "a suite that was to end within 30s, at the quick size") {
			t.Errorf("%s: notes %q", name, r.Notes)
		}
	}
	// Taken up again, it stays at its size, whatever would fit now.
	out, err = all(t, dir, text, "--rounds", "9", "--budget", "9h", "--only", "redis")
	if err != nil || !strings.Contains(out, "quick sizes") || rounds(t, dir, "redis") != 9 {
		t.Errorf("%v\n%s", err, out)
	}
	full := t.TempDir()
	if out, err := all(t, full, both, "--rounds", "1", "--only", "redis"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := all(t, full, both, "--rounds", "2", "--only", "redis", "--quick"); err == nil || !strings.Contains(err.Error(), "holds results of the full sizes") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAnInterruptKeepsTheRoundsOfEveryScenario(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // after the first round of redis, and the round of memcached before it
		for range 18000 {
			if _, err := os.Stat(filepath.Join(dir, "redis", result.File)); err == nil {
				cancel()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	out, err := until(ctx, t, dir, both, "--rounds", "50")
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != 130 || !strings.Contains(err.Error(), "the same command continues from there") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"memcached", "redis"} {
		if n := rounds(t, dir, name); n < 1 || n > 49 {
			t.Errorf("%s has %d rounds", name, n)
		}
	}
	var said result.Suite
	data, err := os.ReadFile(filepath.Join(dir, "suite.json"))
	if err != nil || json.Unmarshal(data, &said) != nil || len(said.Remarks) != 1 || !strings.Contains(said.Remarks[0], "interrupted") {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestAFailedScenarioIsNotTriedAgain(t *testing.T) {
	members := []member{{guess: 1, visits: 2, wanted: 2}, {guess: 3, visits: 2, wanted: 2}}
	if i, bound, ok := choose(members, unbounded); !ok || i != 0 || bound != 0 {
		t.Errorf("%d, %v, %v", i, bound, ok)
	}
	members[0].failed = true
	if i, _, ok := choose(members, unbounded); !ok || i != 1 {
		t.Errorf("after a failure %d is chosen, %v", i, ok)
	}
}

func TestWhatIsNotPreparedInTimeIsGivenUp(t *testing.T) {
	bin := t.TempDir() // an apt-get that never ends, for the scenario that fetches sources
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\nsleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	r := &suiteRun{options: options{out: t.TempDir(), allocators: "glibc", goal: "rss"}, env: cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()},
		now: time.Now, size: runner.Quick}
	start := time.Now()
	x, err := r.openWithin(context.Background(), Entry{Name: "rax"}, 200*time.Millisecond)
	if x != nil || err == nil || err.Error() != "it was not prepared within 200ms" || time.Since(start) > time.Minute {
		t.Errorf("%v after %v\n%s", err, time.Since(start), out.String())
	}
}

func TestTheTurnGoesToWhoHasFewestRoundsWithinTheTimeLeft(t *testing.T) {
	members := []member{{guess: 10, visits: 2, wanted: 3}, {guess: 5, visits: 2, wanted: 3, prepare: 4}}
	for _, c := range []struct {
		name     string
		finished [2]int
		left     time.Duration
		index    int
		bound    time.Duration
		ok       bool
	}{
		{"all first rounds fit: the first may take what the second leaves", [2]int{0, 0}, 60 * time.Second, 0, 46 * time.Second, true},
		{"they do not fit: each has its share", [2]int{0, 0}, 17 * time.Second, 0, 10 * time.Second, true},
		{"the fewest rounds come first", [2]int{1, 0}, 60 * time.Second, 1, 60 * time.Second, true},
		{"a later round must fit", [2]int{1, 1}, 15 * time.Second, 1, 15 * time.Second, true},
		{"nothing fits", [2]int{1, 1}, 13 * time.Second, 0, 0, false},
		{"a first round is begun however little is left", [2]int{1, 0}, time.Second, 1, time.Second, true},
		{"but not after the end", [2]int{1, 0}, -time.Second, 0, 0, false},
		{"all is done", [2]int{3, 3}, unbounded, 0, 0, false},
	} {
		members[0].finished, members[1].finished = c.finished[0], c.finished[1]
		if i, bound, ok := choose(members, c.left); i != c.index || bound.Round(time.Millisecond) != c.bound || ok != c.ok {
			t.Errorf("%s: %d, %v, %v", c.name, i, bound, ok)
		}
	}
}

func TestTheForecastIsScaledToTheMachine(t *testing.T) {
	members := []member{{guess: 10, measured: 20, visits: 3, finished: 1, wanted: 2}, {guess: 5, visits: 3, wanted: 2, prepare: 7}}
	if got := pace(members); got != 2 {
		t.Errorf("pace %v", got)
	}
	if got := remaining(members); got != 20*3+10*3*2+7 {
		t.Errorf("remaining %v", got)
	}
}

func TestWhoWasLeftOutOfARoundIsNotFinished(t *testing.T) {
	r := &result.Results{Rounds: 2, Seconds: 30, Rows: []result.Row{{Phase: "p", Metric: "m"}}}
	selected := []allocators.Allocator{{Name: "a"}, {Name: "b"}, {Name: "broken"}}
	r.Allocators = selected
	for round := range 2 {
		var s result.Sample
		s.Set("p", "m", 1)
		r.Add("a", round, s)
		if round == 0 {
			r.Add("b", round, s)
		}
	}
	r.Failures = []result.Failure{{Allocator: "broken"}}
	if got := finished(r, selected); got != 1 {
		t.Errorf("%d rounds are finished", got)
	}
	if got := average(r); got != 10 {
		t.Errorf("a visit took %v s", got)
	}
}

func TestProgressSaysWhatIsLeft(t *testing.T) {
	var out bytes.Buffer
	at := time.Unix(0, 0)
	p := &progress{out: &out, now: func() time.Time { return at }, start: at}
	p.begin("redis, round 1 of 2:", 20, 60, 2)
	p.Step("glibc")
	at = at.Add(10 * time.Second)
	p.Step("granary")
	if want := "redis, round 1 of 2: glibc (0 % done, about 1m20s left)\nredis, round 1 of 2: granary (12 % done, about 1m10s left)\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}

func TestWrongSuitesAreRefused(t *testing.T) {
	for text, message := range map[string]string{
		"":                                  "it has no [[scenario]]",
		"[[scenario]]\nname='fun'":          `there is no scenario "fun"`,
		"[[scenario]]\nname='redis'\nx = 1": `there is no setting "scenario.x"`,
		"[[scenario]]\nname='redis'\n[[scenario]]\nname='redis'": "is listed twice",
	} {
		if _, err := all(t, t.TempDir(), text); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := all(t, t.TempDir(), both, "--only", "fun"); err == nil || !strings.Contains(err.Error(), "choose from memcached, redis") {
		t.Errorf("err = %v", err)
	}
	fs := pflag.NewFlagSet("bench all", pflag.ContinueOnError)
	var exit *cli.ExitError
	if err := Command.Setup(fs)(context.Background(), cli.Env{}, nil); !errors.As(err, &exit) || exit.Code != cli.CodeUsage {
		t.Errorf("err = %v", err)
	}
}
