package trace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// A run is one call of the command.
type run struct {
	out  string // the trace
	said string
	code int
}

func recordTrace(t *testing.T, environ []string, args ...string) run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace.gtr")
	flags := pflag.NewFlagSet("record", pflag.ContinueOnError)
	act := setupRecord(flags)
	if err := flags.Parse(append([]string{"--lib", testkit.Recorder(t), "-o", out}, args...)); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &said, Stderr: &said, Environ: append(os.Environ(), environ...)}, flags.Args())
	code := 0
	if err != nil {
		var exit *cli.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		code = exit.Code
		said.WriteString(err.Error())
	}
	return run{out: out, said: said.String(), code: code}
}

func summary(t *testing.T, path string) Summary {
	t.Helper()
	tr, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	s := Summarize(tr)
	if len(s.Findings.Damage) > 0 || s.Findings.MissingFrees > unordered(s) || s.Header.Lost > 0 {
		t.Errorf("%+v, %d lost", s.Findings, s.Header.Lost)
	}
	return s
}

// unordered is how many calls two threads may make at one address in one tick of the clock, in an order that cannot be
// known: one in 1,000, and none where one thread runs.
func unordered(s Summary) uint64 {
	if s.Threads == 1 {
		return 0
	}
	return s.Events / 1000
}

// ofSize is the group of one size, which only the program under test requests.
func ofSize(s Summary, size uint64) Group {
	for _, g := range s.BySize {
		if g.Size == size {
			return g
		}
	}
	return Group{}
}

// calls uses each symbol a known number of times, each with another size.
const calls = `
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
void* _Znwm(size_t); void* _Znam(size_t); void _ZdlPv(void*); void _ZdaPvm(void*, size_t);
void* _ZnwmSt11align_val_t(size_t, size_t); void _ZdlPvSt11align_val_t(void*, size_t);
void* _ZnwmRKSt9nothrow_t(size_t, const void*); char _ZSt7nothrow;
static void* volatile keep[100];
#define TIMES(n, expression) for (int i = 0; i < (n); ++i) keep[i] = (expression)
#define FREE(n) for (int i = 0; i < (n); ++i) free(keep[i])
int main(void) {
  TIMES(10, malloc(7001)); FREE(10);
  TIMES(20, calloc(7, 1003)); FREE(19);
  TIMES(30, memalign(64, 7041)); FREE(30);
  TIMES(31, aligned_alloc(4096, 8192 + 4096)); FREE(31);
  void* p = 0;
  TIMES(32, posix_memalign(&p, 128, 7081) == 0 ? p : 0); FREE(32);
  TIMES(40, malloc(7101)); TIMES(40, realloc(keep[i], 70001)); TIMES(40, reallocarray(keep[i], 3, 1111)); FREE(40);
  TIMES(41, realloc(0, 7121)); TIMES(41, realloc(keep[i], 0)); FREE(0);
  keep[0] = malloc(7131); if (realloc(keep[0], (size_t)-1 / 2)) return 1; free(keep[0]);
  TIMES(50, _Znwm(7201)); for (int i = 0; i < 50; ++i) _ZdlPv(keep[i]);
  TIMES(51, _Znam(7211)); for (int i = 0; i < 51; ++i) _ZdaPvm(keep[i], 7211);
  TIMES(52, _ZnwmSt11align_val_t(7424, 256)); for (int i = 0; i < 52; ++i) _ZdlPvSt11align_val_t(keep[i], 256);
  TIMES(53, _ZnwmRKSt9nothrow_t(7231, &_ZSt7nothrow)); for (int i = 0; i < 53; ++i) _ZdlPv(keep[i]);
  free(0);
  return 3;
}`

func TestEveryCallIsRecordedOnce(t *testing.T) {
	program := testkit.Compile(t, calls, "-fno-builtin", "-w", "-lstdc++")
	for _, below := range []string{"", testkit.Library(t)} {
		r := recordTrace(t, []string{"LD_PRELOAD=" + below}, program)
		if r.code != 3 || !strings.Contains(r.said, "granary: recorded ") {
			t.Fatalf("exit code %d: %s", r.code, r.said)
		}
		s := summary(t, r.out)
		if s.Header.Program != program || below != "" && s.Header.Allocator != below {
			t.Errorf("%+v", s.Header)
		}
		for _, want := range []struct{ size, objects, atEnd uint64 }{
			{7001, 10, 0}, {7021, 20, 1}, {7041, 30, 0}, {12288, 31, 0}, {7081, 32, 0}, {7101, 40, 0}, {70001, 40, 0}, {3333, 40, 0}, {7121, 41, 0},
			{7131, 1, 0}, {7201, 50, 0}, {7211, 51, 0}, {7424, 52, 0}, {7231, 53, 0}, {1<<63 - 1, 0, 0},
		} {
			if g := ofSize(s, want.size); g.Objects != want.objects || g.AtEnd != want.atEnd {
				t.Errorf("below %q: size %d: %d objects, %d at the end; want %d, %d", below, want.size, g.Objects, g.AtEnd, want.objects, want.atEnd)
			}
		}
		if s.Reallocs < 80 {
			t.Errorf("%d reallocs", s.Reallocs)
		}
	}
}

// The file is made before the program's first call, if nothing allocates while it is loaded.
func TestATraceNamesTheAllocator(t *testing.T) {
	program := testkit.Compile(t, "int main(void) { return 0; }")
	for below, want := range map[string]string{"": "libc.so.6", testkit.Library(t): filepath.Base(testkit.Library(t))} {
		r := recordTrace(t, []string{"LD_PRELOAD=" + below}, program)
		if got := filepath.Base(summary(t, r.out).Header.Allocator); got != want {
			t.Errorf("below %q: the allocator is %q", below, got)
		}
	}
}

func TestAnonymousTracesNameNothing(t *testing.T) {
	program := testkit.Compile(t, calls, "-fno-builtin", "-w", "-lstdc++")
	r := recordTrace(t, nil, "--anonymous", program)
	h := summary(t, r.out).Header
	if h.Program != "" || h.Allocator != "" || h.PID != 0 || h.Sample != 1 || h.Length == 0 {
		t.Errorf("%+v", h)
	}
	data, err := os.ReadFile(r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{program, "libc.so"} {
		if bytes.Contains(data, []byte(name)) {
			t.Errorf("the trace contains %q", name)
		}
	}
	if out, err := call(t, "trace info", r.out); err != nil || !strings.Contains(out, "allocator        unknown") {
		t.Errorf("%v\n%s", err, out)
	}
	if r := recordTrace(t, nil, "--anonymous", "--raw", program); r.code == 0 || !strings.Contains(r.said, "leave --raw out") {
		t.Errorf("with --raw: code %d: %s", r.code, r.said)
	}
}

func TestKindsAndAlignments(t *testing.T) {
	r := recordTrace(t, nil, testkit.Compile(t, calls, "-fno-builtin", "-w", "-lstdc++"))
	tr, err := Open(r.out)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	aligns := map[uint64]uint64{7001: 1, 7041: 64, 12288: 4096, 7081: 128, 7424: 256}
	for e := range tr.Events() {
		if want, ok := aligns[e.Size]; ok && e.Begins() && e.Align != want {
			t.Errorf("%+v: want alignment %d", e, want)
		}
		if e.Begins() && (e.Size == 7021) != (e.Kind == Zeroed) && e.Size > 7000 && e.Size < 8000 {
			t.Errorf("%+v", e)
		}
	}
}

// Eight threads pass objects on: each frees the objects of its neighbour, while others reuse their addresses.
const exchange = `
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { kThreads = 8, kObjects = 20000 };
static _Atomic(void*) slot[kThreads][64];
static void* work(void* argument) {
  size_t self = (size_t)argument;
  for (int i = 0; i < kObjects; ++i) {
    void* old = atomic_exchange(&slot[(self + 1) % kThreads][i % 64], malloc(5001 + self));
    free(old);
  }
  return 0;
}
int main(void) {
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  for (int i = 0; i < kThreads; ++i) for (int j = 0; j < 64; ++j) free(slot[i][j]);
  return 0;
}`

func TestThreads(t *testing.T) {
	program := testkit.Compile(t, exchange, "-pthread")
	for _, below := range []string{"", testkit.Library(t)} {
		s := summary(t, recordTrace(t, []string{"LD_PRELOAD=" + below}, program).out)
		if s.Threads != 9 || s.Findings.UnknownFrees > unordered(s) {
			t.Errorf("%d threads, %+v", s.Threads, s.Findings)
		}
		for i := range uint64(8) {
			if g := ofSize(s, 5001+i); g.Objects != 20000 || g.AtEnd > unordered(s) {
				t.Errorf("below %q, thread %d: %+v", below, i, g)
			}
		}
	}
}

const dies = `
#include <signal.h>
#include <stdlib.h>
static void* volatile keep;
int main(void) {
  for (int i = 0; i < 100000; ++i) free(keep = malloc(6001));
  for (int i = 0; i < 10; ++i) keep = malloc(6002);
  raise(SIGKILL);
}`

func TestKilledProgram(t *testing.T) {
	r := recordTrace(t, nil, "--raw", testkit.Compile(t, dies))
	if r.code != 128+9 {
		t.Errorf("exit code %d: %s", r.code, r.said)
	}
	s := summary(t, r.out)
	if g := ofSize(s, 6001); g.Objects != 100000 || g.AtEnd != 0 {
		t.Errorf("%+v", g)
	}
	if g := ofSize(s, 6002); g.Objects != 10 || g.AtEnd != 10 {
		t.Errorf("%+v", g)
	}
}

const forks = `
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void* volatile keep;
static void use(size_t size, int n) { for (int i = 0; i < n; ++i) free(keep = malloc(size)); }
int main(void) {
  use(4001, 100);
  pid_t child = fork();
  if (child == 0) { use(4002, 5000); _exit(0); }
  use(4003, 5000);
  waitpid(child, 0, 0);
  if ((child = vfork()) == 0) { keep = malloc(4004); _exit(0); }
  waitpid(child, 0, 0);
  free(keep);
  use(4001, 100);
  return 0;
}`

func TestForks(t *testing.T) {
	program := testkit.Compile(t, forks)
	for _, follow := range []bool{false, true} {
		args := []string{program}
		if follow {
			args = []string{"--follow", program}
		}
		r := recordTrace(t, nil, args...)
		s := summary(t, r.out)
		for size, want := range map[uint64]uint64{4001: 200, 4002: 0, 4003: 5000, 4004: 1} {
			if g := ofSize(s, size); g.Objects != want || g.AtEnd != 0 {
				t.Errorf("parent: %+v, want %d", g, want)
			}
		}
		children, err := filepath.Glob(r.out + ".*")
		if err != nil || (len(children) == 1) != follow {
			t.Fatalf("follow %v: %q", follow, children)
		}
		if !follow {
			continue
		}
		s = summary(t, children[0])
		if g := ofSize(s, 4002); g.Objects != 5000 || g.AtEnd != 0 || ofSize(s, 4001).Objects != 0 || !s.Header.Forked {
			t.Errorf("child: %+v of %+v", g, s.Header)
		}
	}
}

const many = `
#include <stdlib.h>
static void* keep[100000];
int main(void) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100000; ++i) keep[i] = malloc(3001);
    for (int i = 0; i < 100000; ++i) free(keep[i]);
  }
  return 0;
}`

// All events of a sampled address are in the file, or none: each sampled object is freed there.
func TestSample(t *testing.T) {
	s := summary(t, recordTrace(t, nil, "--sample", "10", testkit.Compile(t, many)).out)
	g := ofSize(s, 3001)
	if g.Objects < 27000 || g.Objects > 33000 || g.AtEnd != 0 || s.Findings.UnknownFrees != 0 || s.Header.Sample != 10 {
		t.Errorf("%d of 300000 objects, %d at the end, %+v", g.Objects, g.AtEnd, s.Findings)
	}
}

func TestLimitOfTheFile(t *testing.T) {
	r := recordTrace(t, nil, "--max-bytes", "1MiB", "--raw", testkit.Compile(t, many))
	s := summary(t, r.out)
	if r.code != 0 || s.Header.Size > 1<<20+64<<10 || s.Events < 100000 || s.Events > 600000 || !strings.Contains(s.Header.Stopped, "--max-bytes") {
		t.Errorf("%d bytes, %d events, %+v", s.Header.Size, s.Events, s.Header)
	}
}

func TestWrongCommandLines(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for message, args := range map[string][]string{
		"say which program":               {},
		"--sample 0 records nothing":      {"--sample", "0", "true"},
		"--max-bytes 1KiB is too small":   {"--max-bytes", "1KiB", "true"},
		"is not a size":                   {"--max-bytes", "much", "true"},
		"no trace, which is not replaced": {"-o", text, "true"},
		"there is no folder /nowhere":     {"-o", "/nowhere/trace.gtr", "true"},
		"is in no folder of PATH":         {"no-such-program"},
	} {
		if r := recordTrace(t, nil, args...); r.code == 0 || !strings.Contains(r.said, message) {
			t.Errorf("%q: exit code %d, %s", message, r.code, r.said)
		}
	}
	if r := recordTrace(t, nil, "-o", "/nowhere/trace.gtr", "true"); r.code != cli.CodeToolFailed {
		t.Errorf("exit code %d says that the program is missing", r.code)
	}
	if data, err := os.ReadFile(text); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestProgramThatAllocatesNothing(t *testing.T) {
	r := recordTrace(t, nil, testkit.Compile(t, "int main(void) { return 4; }"))
	if s := summary(t, r.out); r.code != 4 || s.Frees != 0 || s.Header.Stopped != "" {
		t.Errorf("exit code %d, %+v", r.code, s)
	}
}

// A full disk ends the recording, not the program.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system of 1 MiB cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	out := filepath.Join(dir, "small.gtr")
	if r := recordTrace(t, nil, "-o", out, "--raw", testkit.Compile(t, many)); r.code != 0 {
		t.Errorf("exit code %d: %s", r.code, r.said)
	}
	s := summary(t, out)
	if s.Events < 100000 || s.Events > 600000 || s.Header.Stopped != "the disk was full" {
		t.Errorf("%d events, %+v", s.Events, s.Header)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 2<<20), 0o600) // as much as there is room for
	r := recordTrace(t, nil, "-o", out, "--raw", testkit.Compile(t, many))
	if _, err := os.Stat(out); err == nil || !strings.Contains(r.said, "no space left; the program runs unrecorded") {
		t.Errorf("%v: %s", err, r.said)
	}
}

// A recording whose header is a hole, on a file system that has no room to map it.
func TestAHoleIsNoTrace(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system of 1 MiB cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	hole := filepath.Join(dir, "hole.gtr")
	if err := os.WriteFile(hole, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(hole, 64<<20); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 2<<20), 0o600) // as much as there is room for
	if _, err := Open(hole); err == nil || !strings.Contains(err.Error(), "it is no trace") {
		t.Error(err)
	}
}

func TestFollowReplacesOlderTraces(t *testing.T) {
	program, dir := testkit.Compile(t, forks), t.TempDir()
	out := filepath.Join(dir, "again.gtr")
	for range 2 {
		if r := recordTrace(t, nil, "-o", out, "--follow", program); r.code != 0 {
			t.Fatalf("exit code %d: %s", r.code, r.said)
		}
	}
	if files, err := filepath.Glob(out + "*"); err != nil || len(files) != 2 {
		t.Errorf("%q, %v", files, err)
	}
}
