package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
)

// Threads that start threads, free each other's objects, and use every kind of call.
const program = `
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { kThreads = 6, kObjects = 5000 };
static _Atomic(void*) slot[kThreads][32];
static void* last(void* p) { for (int i = 0; i < 100; ++i) { free(p); p = calloc(3, 1001); } return p; }
static void* work(void* argument) {
  size_t self = (size_t)argument;
  for (int i = 0; i < kObjects; ++i) {
    void* p = malloc(2001 + self);
    if (i % 5 == 0) p = realloc(p, 4001 + i % 7);
    if (i % 11 == 0) { free(p); p = memalign(256, 6001); }
    free(atomic_exchange(&slot[(self + i) % kThreads][i % 32], p));
  }
  pthread_t more;
  pthread_create(&more, 0, last, malloc(9));
  pthread_join(more, 0);
  return 0;
}
int main(void) {
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  for (int i = 0; i < kThreads; ++i) for (int j = 0; j < 32; ++j) free(slot[i][j]);
  return 0;
}`

// recorded runs a program with the recorder, and returns the path of its trace.
func recorded(t *testing.T, name string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace.gtr")
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func open(t *testing.T, path string) *Trace {
	t.Helper()
	tr, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func planOf(t *testing.T, path string) string {
	t.Helper()
	plan := filepath.Join(t.TempDir(), "plan")
	if _, err := writePlanFile(plan, path); err != nil {
		t.Fatal(err)
	}
	return plan
}

// unordered is how many of the 39,000 calls two threads may make at one address in one tick of the clock, in an order that
// cannot be known.
const replayUnordered = 39

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// A recording of the replay of a recording holds the same calls as the recording.
func TestReplayRepeatsTheCalls(t *testing.T) {
	replay := testkit.BenchProgram(t, "replay")
	first := recorded(t, testkit.Compile(t, program, "-pthread"))
	want := Summarize(open(t, first))
	for _, mode := range []string{"touch=0", "touch=2", "first=4096", "paced=1"} {
		got := Summarize(open(t, recorded(t, replay, "plan="+planOf(t, first), mode)))
		if got.Findings.UnknownFrees > replayUnordered || got.Findings.MissingFrees > replayUnordered {
			t.Errorf("%s: %+v", mode, got.Findings)
		}
		for _, size := range []uint64{2001, 2002, 2003, 2004, 2005, 2006, 3003, 4001, 4002, 4007, 6001} {
			a, b := group(want, size), group(got, size)
			if a.Objects == 0 || a.Objects != b.Objects || apart(a.AtEnd, b.AtEnd) > replayUnordered {
				t.Errorf("%s, size %d: recorded %d objects, %d at the end; replayed %d, %d", mode, size, a.Objects, a.AtEnd, b.Objects, b.AtEnd)
			}
		}
		if apart(got.Reallocs, want.Reallocs) > replayUnordered || got.Threads < want.Threads {
			t.Errorf("%s: %d reallocs, %d threads; want %d, %d", mode, got.Reallocs, got.Threads, want.Reallocs, want.Threads)
		}
	}
}

// Objects of 1 MiB of which only the first pages are written make few pages resident.
func TestTouchOfTheFirstBytes(t *testing.T) {
	const objects = 64
	recording := chunk(0, 1000)
	for i := range uint64(objects) {
		recording.event(1, 1, 0x1000_0000+i<<20, 1<<20)
	}
	path := filepath.Join(t.TempDir(), "trace.gtr")
	if err := os.WriteFile(path, file(recording), 0o600); err != nil {
		t.Fatal(err)
	}
	peak := func(args ...string) (mebibytes float64) {
		out, err := exec.Command(testkit.BenchProgram(t, "replay"), append(args, "plan="+planOf(t, path))...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			_, _ = fmt.Sscanf(line, "metric RSS_peak %f", &mebibytes) // other lines do not match
		}
		return mebibytes
	}
	whole, first := peak("touch=1"), peak("touch=1", "first=65536")
	if whole < objects || first > objects/4 || first < objects/16 {
		t.Errorf("64 objects of 1 MiB: RSS of %v MiB; with 64 KiB of each, %v MiB", whole, first)
	}
}

func group(s Summary, size uint64) Group {
	for _, g := range s.BySize {
		if g.Size == size {
			return g
		}
	}
	return Group{}
}

// An executor runs a plan in some order of its threads, as the program may.
type executor struct {
	threads [][]operation
	next    []int
	running []bool
	slots   []slotState
}

type slotState struct {
	turn uint32
	live bool
	size uint64
}

func readPlan(t *testing.T, path string) *executor {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data[:8]) != planMagic || binary.LittleEndian.Uint32(data[8:]) != planVersion {
		t.Fatalf("head %q", data[:16])
	}
	threads := binary.LittleEndian.Uint32(data[12:])
	x := &executor{slots: make([]slotState, binary.LittleEndian.Uint64(data[16:])), next: make([]int, threads), running: make([]bool, threads)}
	for i := range threads {
		row := data[planHeaderBytes+threadBytes*int(i):]
		begin, count := binary.LittleEndian.Uint64(row), binary.LittleEndian.Uint64(row[8:])
		var list []operation
		for at := data[begin:][:count*operationBytes]; len(at) > 0; at = at[operationBytes:] {
			list = append(list, operation{size: binary.LittleEndian.Uint64(at), slot: binary.LittleEndian.Uint32(at[8:]), turn: binary.LittleEndian.Uint32(at[12:]), kind: at[20]})
		}
		x.threads = append(x.threads, list)
	}
	x.running[0] = true
	return x
}

// step runs one operation of a thread; false if it must wait or has none.
func (x *executor) step(t *testing.T, thread int) bool {
	if !x.running[thread] || x.next[thread] == len(x.threads[thread]) {
		return false
	}
	op := x.threads[thread][x.next[thread]]
	if op.kind == kindStart {
		if x.running[op.slot] {
			t.Fatalf("thread %d starts twice", op.slot)
		}
		x.running[op.slot] = true
		x.next[thread]++
		return true
	}
	s := &x.slots[op.slot]
	if s.turn != op.turn {
		return false
	}
	if s.live != (op.kind == kindFree || op.kind == kindReallocate) {
		t.Fatalf("%+v of a slot that is %+v", op, s)
	}
	s.live, s.size = op.kind != kindFree, op.size
	s.turn++
	x.next[thread]++
	return true
}

// Whatever thread is fast, no thread waits for ever, and the same is live at the end.
func TestPlansEndInEveryOrder(t *testing.T) {
	path := recorded(t, testkit.Compile(t, program, "-pthread"))
	want := Summarize(open(t, path))
	plan := planOf(t, path)
	for seed := range uint64(20) {
		x, random := readPlan(t, plan), rand.New(rand.NewPCG(seed, 1))
		for stuck := 0; stuck < 20*len(x.threads); {
			thread := random.IntN(len(x.threads))
			burst := random.IntN(1000)
			for ; burst > 0 && x.step(t, thread); burst-- {
				stuck = 0
			}
			stuck++
		}
		var live, bytes uint64
		for _, s := range x.slots {
			if s.live {
				live++
				bytes += s.size
			}
		}
		for i := range x.threads {
			if !x.running[i] || x.next[i] != len(x.threads[i]) {
				t.Fatalf("seed %d: thread %d waits at operation %d of %d", seed, i, x.next[i], len(x.threads[i]))
			}
		}
		if live != want.End.Objects || bytes != want.End.Bytes {
			t.Errorf("seed %d: %d bytes in %d objects at the end, want %+v", seed, bytes, live, want.End)
		}
	}
}

func runReplay(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	fs := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	act := setupReplay(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()}, fs.Args())
	return out.String(), err
}

func TestCommandComparesAllocators(t *testing.T) {
	replay := testkit.BenchProgram(t, "replay")
	path, folder := recorded(t, testkit.Compile(t, program, "-pthread")), t.TempDir()
	out, err := runReplay(t, path, "--programs", filepath.Dir(replay), "--allocators", "glibc", "--rounds", "1", "--out", folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"replay, s", "RSS, peak, MiB", "page faults"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	results, err := result.Read(filepath.Join(folder, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(results.Series, func(s result.Series) bool { return s.Metric == "RSS" && s.Allocator == "glibc" })
	if i < 0 || len(results.Series[i].Points) == 0 {
		t.Fatalf("no RSS over time in %+v", results.Series)
	}
	peak := results.Values("glibc", result.Key{Phase: "replay", Metric: "RSS, peak"})[0]
	for _, p := range results.Series[i].Points {
		if p[1] <= 0 || p[1]/(1<<20) > peak+1 {
			t.Errorf("RSS of %.0f bytes after %.3f s, with a peak of %.1f MiB", p[1], p[0], peak)
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("some text"), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.gtr") // a packed trace with an empty header, and no block
	if err := os.WriteFile(cut, []byte("grantrc\n\x01\x00\x00\x00\x02\x00\x00\x00{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusals := map[string][]string{
		"no event to replay: block 1 is missing: the trace is cut": {cut},
		"it is no trace":           {text},
		"no such file":             {text + ".gtr"},
		"--touch some is unknown":  {text, "--touch", "some"},
		"give the file of a trace": {},
	}
	for message, args := range refusals {
		if out, err := runReplay(t, args...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v\n%s", message, err, out)
		}
	}
}
