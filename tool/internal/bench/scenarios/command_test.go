package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
)

// plan runs `granary bench --plan` on a text.
func plan(t *testing.T, text string, args ...string) (result.Results, string, error) {
	t.Helper()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "service.yaml"), filepath.Join(dir, "results.json")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	act := Plan.Setup(fs)
	if err := fs.Parse(append([]string{"--plan", file, "--allocators", "glibc", "--rounds", "1", "--json", out}, args...)); err != nil {
		t.Fatal(err)
	}
	err := act(context.Background(), cli.Env{Stdout: &printed, Stderr: &printed, Environ: os.Environ()}, nil)
	var r result.Results
	if data, readErr := os.ReadFile(out); readErr == nil {
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
	}
	return r, printed.String(), err
}

const ownService = `
name: my-store
command: [redis-server, --port, $PORT, --bind, 127.0.0.1, --save, "", --dir, $DIR]
environment: {GREETING: hello}
before:
  - [/bin/sh, -c, "echo prepared > $DIR/flag"]
ready: {tcp: "127.0.0.1:$PORT", within: 10s}
settle: 100ms
load:
  - name: writes
    command: [redis-benchmark, -p, $PORT, -t, set, -n, "5000", -q, --csv]
    metrics:
      - {name: rate, pattern: '^"SET","([0-9.]+)"', unit: 1/s, better: higher}
  - name: rest
    for: 200ms
stop: {signal: SIGINT, within: 5s}
`

func TestAServiceOfTheUsersIsMeasuredLikeOneOfTheSuite(t *testing.T) {
	r, printed, err := plan(t, ownService)
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if rate := r.Values("glibc", result.Key{Phase: "writes", Metric: "rate"})[0]; rate < 100 || r.Scenario != "my-store" {
		t.Errorf("rate %v\n%s", rate, printed)
	}
	for _, row := range r.Rows {
		if optional(row) {
			continue
		}
		if _, ok := r.Values("glibc", row.Key())[0]; !ok {
			t.Errorf("%+v is not measured", row)
		}
	}
}

func TestAProgramThatEndsByItselfIsMeasured(t *testing.T) {
	r, printed, err := plan(t, "name: sleeper\ncommand: [sleep, '2']\n")
	if err != nil || r.Values("glibc", result.Key{Phase: "the program", Metric: result.MetricWall})[0] < 2 {
		t.Errorf("%v\n%s", err, printed)
	}
}

// The program's own getrusage is the independent source: it touches 200 MiB, frees them, and ends.
func TestThePeakOfAProgramThatEndsAtOnceIsItsOwn(t *testing.T) {
	program := testkit.Compile(t, `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
int main(void) {
  static char* block[200];
  for (int i = 0; i < 200; i++) memset(block[i] = malloc(1 << 20), 1, 1 << 20);
  for (int i = 0; i < 200; i++) free(block[i]);
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  printf("metric own_peak %ld bytes\n", u.ru_maxrss * 1024);
  return 0;
}`)
	for processes, metric := range map[string]string{"": result.MetricPeakRSS, "processes: tree\n": runner.MetricSampledRSS} {
		r, _, err := plan(t, "name: touch\ncommand: ["+program+"]\n"+processes)
		if err != nil {
			t.Fatal(err)
		}
		peak, own := valueOf(t, r, "the program", metric), valueOf(t, r, "the program", "own peak")
		if own < 200<<20 || math.Abs(peak-own) > 1<<20 {
			t.Errorf("%s%s %.1f MiB; the program says %.1f", processes, metric, peak/(1<<20), own/(1<<20))
		}
	}
}

// Three children hold 60 MiB each at the same time, for less time than there is between two samples. The sum of what
// getrusage says of them is the independent source.
func TestThePeakOfAGroupOfProcessesIsTheKernels(t *testing.T) {
	needGroup(t)
	program := testkit.Compile(t, `#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  int full[2], go[2], sizes[2];
  if (pipe(full) || pipe(go) || pipe(sizes)) return 1;
  for (int i = 0; i < 3; i++) {
    if (fork()) continue;
    char byte = 0;
    void* block = mmap(0, 60 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 1, 60 << 20);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    if (write(sizes[1], &u.ru_maxrss, sizeof(long)) < 0 || write(full[1], &byte, 1) < 0 || read(go[0], &byte, 1) < 0) return 1;
    return 0;
  }
  long sum = 0, one;
  char bytes[3];
  for (int i = 0; i < 3; i++) if (read(full[0], bytes, 1) != 1 || read(sizes[0], &one, sizeof one) != sizeof one) return 1; else sum += one;
  if (write(go[1], bytes, 3) != 3) return 1;
  while (wait(0) > 0) {}
  printf("metric own_sum %ld bytes\n", sum * 1024);
  return 0;
}`)
	r, _, err := plan(t, "name: three\ncommand: ["+program+"]\nprocesses: tree\n")
	if err != nil {
		t.Fatal(err)
	}
	peak, own := valueOf(t, r, "the program", runner.MetricGroupPeak), valueOf(t, r, "the program", "own sum")
	if own < 180<<20 || peak < 180<<20 || peak > own+8<<20 {
		t.Errorf("peak of the group %.1f MiB; the processes say %.1f", peak/(1<<20), own/(1<<20))
	}
	if row := rowOf(t, &r, "the program", runner.MetricSampledRSS); row.Better != result.Neutral {
		t.Error("a verdict can be drawn from samples")
	}
}

func needGroup(t *testing.T) {
	t.Helper()
	g, err := measure.MakeGroup(procfs.Live())
	if err != nil {
		t.Skip("no memory control group can be made here")
	}
	g.Remove()
}

func rowOf(t *testing.T, r *result.Results, phase, metric string) result.Row {
	t.Helper()
	for _, row := range r.Rows {
		if row.Phase == phase && row.Metric == metric {
			return row
		}
	}
	t.Fatalf("no row %q of %q", metric, phase)
	return result.Row{}
}

func TestAProgramThatEndsBeforeItCanBeInspectedIsMeasured(t *testing.T) {
	r, out, err := plan(t, "name: nothing\ncommand: [/bin/true]\n")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if peak := valueOf(t, r, "the program", result.MetricPeakRSS); peak < 100<<10 || peak > 64<<20 {
		t.Errorf("peak RSS %.0f bytes", peak)
	}
}

// A block that is touched and freed between two samples is in the peak of its load, and in the peak of the whole run.
func TestAPeakBetweenTwoSamplesIsSeen(t *testing.T) {
	program := testkit.Compile(t, `#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  usleep(300000);
  for (;;) {
    void* block = mmap(0, 100 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 1, 100 << 20);
    munmap(block, 100 << 20);
    usleep(1500000);
  }
}`)
	service := "name: spikes\ncommand: [" + program + "]\nready: {command: [/bin/true]}\nsettle: 100ms\nload:\n  - {name: watched, for: 4s}\n"
	r, _, err := plan(t, service)
	if err != nil {
		t.Fatal(err)
	}
	check := func(peaks ...float64) {
		for _, peak := range peaks {
			if peak < 100<<20 || peak > 120<<20 {
				t.Errorf("peak %.1f MiB", peak/(1<<20))
			}
		}
	}
	check(valueOf(t, r, "watched", runner.MetricRSS), valueOf(t, r, "whole run", result.MetricPeakRSS))
	needGroup(t)
	if r, _, err = plan(t, service+"processes: tree\n"); err != nil {
		t.Fatal(err)
	}
	check(valueOf(t, r, "whole run", runner.MetricGroupPeak))
}

// valueOf is a value of the system's allocator in the first round.
func valueOf(t *testing.T, r result.Results, phase, metric string) float64 {
	t.Helper()
	value, ok := r.Values("glibc", result.Key{Phase: phase, Metric: metric})[0]
	if !ok {
		t.Fatalf("no %s of %s", metric, phase)
	}
	return value
}

func TestPlansThatAreWrongAreRefusedClearly(t *testing.T) {
	for text, message := range map[string]string{
		"command: [sleep]":                    "it has no `name`",
		"name: x":                             "it has no `command`",
		"name: x\ncommand: [sleep]\nspeed: 1": `line 3: there is no setting "speed" here`,
		"":                                    "it is empty",
		"name: [x]":                           "line 1: a list stands where the plan needs one text",
		"hello":                               "line 1: `hello` stands where the plan needs names with their values",
		"name: x\ncommand: sleep":             "line 2: `sleep` stands where the plan needs a list",
		"name: x\nrounds: often":              "line 2: `often` stands where the plan needs a whole number",
		"name: x\nsettle: often":              "line 2: `often` stands where the plan needs a duration",
		"\x01\x02":                            "it is no YAML: ",
		"name: x\ncommand: [sleep]\nload: [{name: a}]":                                           "it has a `load` but no `ready`",
		"name: x\ncommand: [sleep]\nstop: {signal: SIGFOO}":                                      `"SIGFOO" is no signal`,
		"name: x\ncommand: [no-such-program-here]":                                               "there is no program no-such-program-here on the PATH",
		"name: x/y\ncommand: [sleep]":                                                            `"x/y"; it becomes a part of file names`,
		"name: x\ncommand: [sleep]\nrounds: -3":                                                  "negative",
		"name: x\ncommand: [sleep]\nsettle: -3s":                                                 "negative",
		"name: x\ncommand: ['']":                                                                 "`command` names no program",
		"name: x\ncommand: [/tmp]":                                                               "/tmp is a folder",
		"name: x\ncommand: [/etc/passwd]":                                                        "/etc/passwd is no program",
		"name: x\ncommand: [/no/such]":                                                           "there is no file /no/such",
		"name: x\ncommand: [sleep]\nbefore: [[]]":                                                "`before` names no program",
		"name: x\ncommand: [sleep]\nbefore: [[no-such-before]]":                                  "no program no-such-before",
		"name: x\ncommand: [sleep]\nready: {command: []}":                                        "`ready: command` names no program",
		"name: x\ncommand: [sleep]\nready: {tcp: a}\nload: [{name: a, command: [no-such-load]}]": "load a: `command`: there is no program no-such-load",
		"name: x\ncommand: [sleep]\nready: {tcp: a}\nload: [{name: a, for: -1s}]":                "negative `for`",
		"name: x\ncommand: [sleep]\nready: {tcp: a}\nload: [{name: a, command: [sleep], metrics: [{name: m, pattern: none}]}]": "with a group (...) around the value",
		"name: x\ncommand: [sleep]\nready: {tcp: a}\nload: [{name: a, command: [sleep], for: 1s}]":                             "needs `command`, or `for`",
	} {
		if _, _, err := plan(t, text); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestALoadThatPrintsNoMetricIsExplained(t *testing.T) {
	_, printed, err := plan(t, strings.Replace(ownService, `^"SET"`, `^"NOTHING"`, 1))
	if err == nil || !strings.Contains(printed, "writes: the load printed nothing that matches") {
		t.Errorf("%v\n%s", err, printed)
	}
}

func TestAPortThatIsTakenIsReportedWithTheServersOwnWords(t *testing.T) {
	taken := strings.NewReplacer("--port, $PORT", "--port, '1'", "--bind, 127.0.0.1", "--bind, 203.0.113.1").Replace(ownService)
	_, printed, err := plan(t, taken)
	if err == nil || !strings.Contains(printed, "start: redis-server died (exit status 1); the end of its log says:") {
		t.Errorf("%v\n%s", err, printed)
	}
}

func TestWhatAnswersAlreadyIsNotTakenForTheService(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	text := "name: x\ncommand: [sleep, '60']\nready: {tcp: '" + other.Addr().String() + "', within: 2s}\nload: [{name: a, for: 100ms}]\n"
	_, printed, err := plan(t, text)
	if err == nil || !strings.Contains(printed, "start: something answers at "+other.Addr().String()+" before the service is started") {
		t.Errorf("%v\n%s", err, printed)
	}
}

func TestAServiceThatEndsUnderItsLoadIsNotMeasured(t *testing.T) {
	text := strings.Replace(ownService, `[redis-benchmark, -p, $PORT, -t, set, -n, "5000", -q, --csv]`, `[sh, -c, "redis-cli -p $PORT shutdown nosave; echo '\"SET\",\"1\"'"]`, 1)
	r, printed, err := plan(t, text)
	if err == nil || !strings.Contains(printed, "writes: redis-server ended by itself; the end of its log says:") || len(r.Values("glibc", result.Key{Phase: "writes", Metric: "rate"})) > 0 {
		t.Errorf("%v\n%s", err, printed)
	}
}

func TestProcessesThatAreNotCountedAreReported(t *testing.T) {
	const note = "sh starts other processes, whose memory is not counted"
	const text = "name: x\ncommand: [sh, -c, 'sleep 1; true']\n"
	for more, want := range map[string]bool{"": true, "processes: one\n": false, "processes: tree\n": false} {
		if _, printed, err := plan(t, text+more); err != nil || strings.Contains(printed, note) != want {
			t.Errorf("%q: %v\n%s", more, err, printed)
		}
	}
}

func TestBenchWithoutAPlanNamesTheScenarios(t *testing.T) {
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	err := Plan.Setup(fs)(context.Background(), cli.Env{}, nil)
	if err == nil || !strings.Contains(err.Error(), "bench redis") || !strings.Contains(err.Error(), "bench micro") {
		t.Errorf("err = %v", err)
	}
}

func TestSoakFillsItsRows(t *testing.T) {
	r := measureOnce(t, soak, "--days", "2", "--seconds", "1", "--mib", "10")
	points := 0
	for _, s := range r.Series {
		if strings.HasSuffix(s.Metric, ", by day") {
			points += len(s.Points)
		}
	}
	if points != 8 {
		t.Errorf("%d points of 2 days, expected 8", points)
	}
}
