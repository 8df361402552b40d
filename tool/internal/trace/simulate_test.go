package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
)

// Phases of a server: it fills, deletes three quarters at random, rests, and fills again with larger objects. A second thread
// makes it a program of several, as the replay always is.
const phases = `
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { kObjects = 60000, kBlocks = 6 };
static void* object[kObjects];
static void* block[kBlocks];
static unsigned next = 1;
static unsigned Random(void) { return (next = next * 1664525u + 1013904223u) >> 8; }
static void fill(size_t from, size_t to) {
  for (int i = 0; i < kObjects; ++i) if (!object[i]) object[i] = malloc(from + Random() % (to - from));
}
static void* once(void* p) { free(malloc(10)); return p; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, once, 0);
  pthread_join(thread, 0);
  fill(16, 600);
  for (int i = 0; i < kBlocks; ++i) block[i] = calloc(1, 1 << 20);
  block[0] = realloc(block[0], 3 << 20);
  for (int i = 0; i < kObjects; ++i) if (Random() % 4) { free(object[i]); object[i] = 0; }
  for (int i = 1; i < kBlocks; ++i) free(block[i]);
  usleep(1200000);
  fill(600, 900);
  for (int i = 0; i < kObjects; i += 2) { free(object[i]); object[i] = 0; }
  usleep(600000);
  free(malloc(100));
  return 0;
}`

// Two threads, of which one grows a heap that is large enough for the background thread.
const growth = `
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void* rest(void* p) { for (int i = 0; i < 40; ++i) { usleep(10000); free(malloc(50)); } return p; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, rest, 0);
  void** held = malloc(60000 * sizeof *held);
  for (int i = 0; i < 60000; ++i) held[i] = malloc(700);
  pthread_join(thread, 0);
  for (int i = 0; i < 60000; ++i) free(held[i]);
  return 0;
}`

// recorded is the trace of a program.
func recordedLoad(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace.gtr")
	cmd := exec.Command(testkit.Compile(t, source, "-O1", "-fno-builtin", "-pthread"))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// simulated is what the command prints with --json.
func simulated(t *testing.T, args ...string) Report {
	t.Helper()
	out, err := runSimulate(t, append(args, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func runSimulate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	flags := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
	act := setupSimulate(flags)
	if err := flags.Parse(append([]string{"--programs", filepath.Dir(testkit.BenchProgram(t, "simulate"))}, args...)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out}, flags.Args())
	return out.String(), err
}

var metric = regexp.MustCompile(`metric (\w+) ([0-9.e+]+) MiB`)

// replayed is the RSS of the real replay, in recorded time, under the library. The program's own is the end of one that
// makes a single call.
func replayed(t *testing.T, path, setting string) map[string]float64 {
	t.Helper()
	plan := filepath.Join(t.TempDir(), "plan")
	file, err := os.Create(plan)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tr, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := WritePlan(file, tr); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testkit.BenchProgram(t, "replay"), "plan="+plan, "paced=1", "touch=1")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF="+setting)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	figures := map[string]float64{}
	for _, m := range metric.FindAllStringSubmatch(string(out), -1) {
		figures[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	return figures
}

// The simulated RSS is that of a real replay, without the memory of a program that allocates next to nothing.
// simulatedOtherwise replays the trace and says where the simulation differs by more than a tenth and 1 MiB; own is what a replay takes itself.
func simulatedOtherwise(t *testing.T, path string, r Result, own float64) (differs string) {
	t.Helper()
	real := replayed(t, path, r.Setting)
	for name, bytes := range map[string]uint64{"RSS_peak": r.PeakRSS, "RSS_end": r.EndRSS, "RSS_mean": r.MeanRSS} {
		got, want := float64(bytes)/(1<<20), real[name]-own
		text := fmt.Sprintf("%s simulated %.2f MiB, replayed %.2f MiB", name, got, want)
		t.Logf("%s: %s", r.Setting, text)
		if math.Abs(got-want) > 0.1*want+1 {
			differs = text
		}
	}
	return differs
}

func TestSimulationAgreesWithReplay(t *testing.T) {
	path := recordedLoad(t, phases)
	own := replayed(t, recordedLoad(t, `#include <stdlib.h>
int main(void) { free(malloc(1)); return 0; }`), "")["RSS_end"]
	report := simulated(t, path, "--set", "dirty_decay_ms=0,200,-1")
	if len(report.Results) != 3 || report.Chosen == "" || report.Sample != 1 {
		t.Fatalf("%+v", report)
	}
	for _, r := range report.Results {
		differs := simulatedOtherwise(t, path, r, own)
		for again := 0; differs != "" && again < 3; again++ { // a busy machine purges late in one replay
			differs = simulatedOtherwise(t, path, r, own)
		}
		if differs != "" {
			t.Errorf("%s: in four replays, the last with %s", r.Setting, differs)
		}
	}
	kept, purged := report.Results[2], report.Results[0]
	if kept.Purged != 0 || purged.Purged == 0 || purged.Refaulted == 0 || purged.EndRSS >= kept.EndRSS {
		t.Errorf("kept %+v, purged %+v", kept, purged)
	}
	if kept.LivePeak == 0 || kept.LiveEnd >= kept.LivePeak || kept.Allocations < 100000 || len(kept.Curve) == 0 || kept.Misses == 0 {
		t.Errorf("%+v", kept)
	}
}

// With a decay time of zero, the background thread of a heap that has grown sleeps between two rounds.
func TestTheBackgroundThreadSleeps(t *testing.T) {
	report := simulated(t, recordedLoad(t, growth), "--set", "dirty_decay_ms=0,1,1000")
	for _, r := range report.Results {
		if r.PeakRSS < 40<<20 || r.EndRSS > r.PeakRSS {
			t.Errorf("%+v", r)
		}
	}
}

func TestAnotherMachine(t *testing.T) {
	path := recordedLoad(t, growth)
	one := simulated(t, path, "--cpus", "1").Results[0]
	many := simulated(t, path, "--cpus", "64", "--nodes", "4").Results[0]
	if one.Remote != 0 || many.Placed == 0 || many.PeakRSS < one.LivePeak {
		t.Errorf("one CPU %+v, many %+v", one, many)
	}
	out, err := runSimulate(t, path, "--memory", "8MiB")
	if err != nil || !strings.Contains(out, "exceeds the machine's memory") {
		t.Errorf("%s, %v", out, err)
	}
}

// Half of the objects have a size just above one of the coarse classes, where a finer one follows.
const between = `
#include <stdlib.h>
int main(void) {
  void** held = malloc(30000 * sizeof *held);
  for (int i = 0; i < 30000; ++i) held[i] = malloc(i % 2 ? 520 : 1296);
  for (int i = 0; i < 30000; ++i) free(held[i]);
  return 0;
}`

func TestCoarseClassesRoundUpFurther(t *testing.T) {
	path := recordedLoad(t, between)
	r := simulated(t, path, "--classes", "fine,coarse", "--set", "dirty_decay_ms=0,-1")
	if len(r.Results) != 4 || r.Results[0].Classes != "fine" || r.Results[3].Classes != "coarse" || r.ChosenClasses != "fine" {
		t.Fatalf("%+v", r)
	}
	// 544 and 1408 bytes become 640 and 1536.
	fine, coarse := float64(r.Results[0].PeakRSS), float64(r.Results[2].PeakRSS)
	if want := (640 + 1536.0) / (544 + 1408); math.Abs(coarse/fine-want) > 0.03 {
		t.Errorf("coarse %.0f, fine %.0f, ratio %.3f, want %.3f", coarse, fine, coarse/fine, want)
	}
	out, err := runSimulate(t, path, "--classes", "coarse")
	if err != nil || !strings.Contains(out, "the defaults; coarse classes") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestWrongInputIsOneMessage(t *testing.T) {
	path := recordedLoad(t, growth)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no trace"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []struct{ args, message string }{
		{text, "it is no trace"},
		{path + " --set dirty_decay_ms=soon", "--set: option dirty_decay_ms cannot be 'soon'; give -1 to 3600000, or a duration such as 5s"},
		{path + " --goal beauty", "give rss or speed"},
		{path + " --classes large", "give fine or coarse"},
		{path + " --classes fine,fine", "has fine twice"},
		{path + " --cpus 0", "give 1 to 1024"},
		{path + " --nodes 9 --cpus 2", "no more than CPUs"},
		{path + " --memory much", "such as 128GiB"},
	} {
		out, err := runSimulate(t, strings.Fields(wrong.args)...)
		if err == nil || !strings.Contains(err.Error(), wrong.message) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%s: %v\n%s", wrong.args, err, out)
		}
	}
}

// A sequence with changed bytes is simulated, or refused with a message; it never ends the program otherwise.
func TestDamagedSequences(t *testing.T) {
	program := testkit.BenchProgram(t, "simulate")
	tr, err := Open(recordedLoad(t, growth))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	path := filepath.Join(t.TempDir(), "sequence")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := WriteSequence(file, tr); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	const head, word = 16, 8
	short := bytes.Clone(whole[:head+word*min(5000, (len(whole)-head)/word-1)])
	short = append(short, whole[len(whole)-word:]...) // the end
	passed := 0
	for i := range 60 {
		data := bytes.Clone(short)
		for range i {
			at := random.IntN(len(data))
			if i%4 != 0 {
				at = max(head, at)
			}
			data[at] = byte(random.IntN(256))
		}
		if i%7 == 6 {
			data = data[:random.IntN(len(data))]
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(program, path).CombinedOutput()
		if err == nil {
			passed++
		} else if !strings.HasPrefix(string(out), "simulate: ") {
			t.Fatalf("change %d: %v\n%s", i, err, out)
		}
	}
	if passed == 0 || passed == 60 {
		t.Errorf("%d of 60 were simulated", passed)
	}
}
