package redis

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/cli"
	"granary/tool/internal/preload"
	"granary/tool/internal/procfs"
)

// small is the scenario in little, for a real server.
var small = Settings{Requests: 2000, Keys: 500, Values: []int{3, 5000}, Refill: 3000, Settle: 50 * time.Millisecond, Poll: 10 * time.Millisecond}

// tools are required: redis-server is a dependency of these tests.
func tools(t *testing.T) Tools {
	t.Helper()
	found, err := FindTools()
	if err != nil {
		t.Fatalf("these tests start a real server: %v", err)
	}
	return found
}

func glibc(t *testing.T) allocators.Contender {
	t.Helper()
	finder := allocators.Finder{LibraryDirs: preload.LibraryDirs(), FindOurs: func() (string, error) { return "", errors.New("not needed") }}
	selected, _, err := finder.Select("glibc")
	if err != nil {
		t.Fatal(err)
	}
	return selected[0]
}

func TestScenarioFillsEveryRowFromARealServer(t *testing.T) {
	var ticks []string
	sample, err := Measure(context.Background(), small, tools(t), procfs.Live(), os.Environ(), glibc(t), 0,
		func(label string) { ticks = append(ticks, label) })
	if err != nil {
		t.Fatal(err)
	}
	if len(ticks) != Parts(small) {
		t.Errorf("%d parts ticked, %d announced: %q", len(ticks), Parts(small), ticks)
	}
	for _, row := range Rows(small) {
		v, ok := sample.Get(row.Phase, row.Metric)
		if !ok || math.IsNaN(v) || v < 0 || v == 0 && row.Metric != "server CPU" {
			t.Errorf("%s, %s: %v, measured: %v", row.Phase, row.Metric, v, ok)
		}
	}
	used, _ := sample.Get("filled, 5000 B", "used memory")
	if low := float64(small.Keys * 5000); used < low || used > 2*low {
		t.Errorf("%d values of 5000 bytes use %.0f bytes", small.Keys, used)
	}
	left, _ := sample.Get("3/4 deleted", "used memory")
	if left > used/2 {
		t.Errorf("three quarters deleted leave %.0f of %.0f bytes", left, used)
	}
}

func TestEveryContenderDeletesTheSameKeys(t *testing.T) {
	a, b := visit{settings: small, round: 1}, visit{settings: small, round: 1}
	other := visit{settings: small, round: 2}
	if x, y := a.fallen(), b.fallen(); len(x) != 375 || x[0] != y[0] || x[374] != y[374] {
		t.Error("two contenders of a round delete different keys")
	}
	if a.fallen()[0] == other.fallen()[0] && a.fallen()[1] == other.fallen()[1] {
		t.Error("two rounds delete the same keys")
	}
}

func TestAnAllocatorWithoutEffectIsAnError(t *testing.T) {
	lib, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(glibc(t).Path), "libm.so.6"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(context.Background(), tools(t), procfs.Live(), os.Environ(), allocators.Contender{Name: "idle", Path: lib})
	if err == nil || !strings.Contains(err.Error(), "idle did not take effect: redis-server calls malloc of /") {
		t.Errorf("err = %v", err)
	}
}

func TestADyingServerIsQuoted(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "redis-server")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho 'Could not create server TCP listening socket'\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(context.Background(), Tools{Server: fake}, procfs.Live(), os.Environ(), glibc(t))
	if err == nil || !strings.Contains(err.Error(), "died (exit status 1); the end of its log says: Could not create server TCP") {
		t.Errorf("err = %v", err)
	}
}

func TestAServerThatDiesUnderLoadIsExplained(t *testing.T) {
	s, err := Start(context.Background(), tools(t), procfs.Live(), os.Environ(), glibc(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	s.process.Stop(time.Second)
	err = s.Put(context.Background(), []int{1}, 3)
	if err == nil || !strings.Contains(s.explain(err).Error(), "the end of its log says") {
		t.Errorf("err = %v", s.explain(err))
	}
}

func TestStopLeavesNothing(t *testing.T) {
	s, err := Start(context.Background(), tools(t), procfs.Live(), os.Environ(), glibc(t))
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if _, err := s.proc.Stat(s.process.PID()); err == nil {
		t.Error("the process is left")
	}
}

func TestParseLoadOfARecordedReport(t *testing.T) {
	text, err := os.ReadFile("testdata/set-100.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLoad(string(text))
	want := Load{Throughput: 46189.38, P50: 0.655, P99: 1.607, P999: 4.375}
	if err != nil || got != want {
		t.Errorf("load %+v, %v; want %+v", got, err, want)
	}
	for _, broken := range []string{"", "throughput summary: 1.0 requests per second"} {
		if _, err := parseLoad(broken); err == nil {
			t.Errorf("%q is a report", broken)
		}
	}
}

func TestInfoNumber(t *testing.T) {
	text, err := os.ReadFile("testdata/info-memory.txt")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := infoNumber(string(text), "used_memory"); err != nil || v < 1e6 {
		t.Errorf("used_memory %v, %v", v, err)
	}
	if _, err := infoNumber(string(text), "used"); err == nil {
		t.Error("a prefix of a name is taken for it")
	}
}

func TestCommandRefusesWrongOptions(t *testing.T) {
	for _, c := range []struct {
		args     []string
		sentence string
	}{
		{[]string{"--requests", "10"}, "--requests must be 1000 or more"},
		{[]string{"--rounds", "-1"}, "--rounds must be 1 or more"},
		{[]string{"extra"}, "takes options only, not extra"},
		{[]string{"--allocators", "nobody"}, `there is no allocator "nobody"`},
	} {
		var out bytes.Buffer
		err := Command(context.Background(), cli.Env{Stdout: &out, Stderr: &out}, c.args)
		if err == nil || !strings.Contains(err.Error(), c.sentence) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestAnInterruptStopsTheServerAndEndsWith130(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tools(t)
	var out bytes.Buffer
	err := Command(ctx, cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()}, []string{"--allocators", "glibc", "--requests", "1000", "--rounds", "1"})
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != 130 {
		t.Errorf("err = %v", err)
	}
}

func TestRowsAreDistinct(t *testing.T) {
	seen := map[bench.Key]bool{}
	for _, row := range Rows(Full) {
		if seen[row.Key()] {
			t.Errorf("two rows %+v", row.Key())
		}
		seen[row.Key()] = true
	}
}
