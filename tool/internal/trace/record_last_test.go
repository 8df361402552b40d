package trace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// Threads that allocate and free far more than a small file holds, one that makes a call now and then, and short
// threads; at last one function allocates objects of one size, half of which stay.
const busy = `
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
static void* volatile keep[1000];
static volatile int done;
static void* Slow(void* p) {
  while (!done) { for (volatile int i = 0; i < 3000000; ++i) {} free(malloc(3001)); }
  return p;
}
/* Sixty sizes that the C library caches apart, so sixty addresses a thread: a sample takes objects by their address. */
static void* Fast(void* p) { for (int i = 0; i < 400000; ++i) free(malloc(40 + i % 60 * 16)); return p; }
__attribute__((noipa)) void* Last(size_t n) { void* p = malloc(n); return p; }
int main(int argc, char** argv) {
  pthread_t slow, fast[3], more;
  pthread_create(&slow, 0, Slow, 0);
  for (int i = 0; i < 3; ++i) pthread_create(&fast[i], 0, Fast, 0);
  for (int i = 0; i < 300; ++i) { pthread_create(&more, 0, (void* (*)(void*))malloc, (void*)10); pthread_join(more, 0); }
  for (int i = 0; i < 3; ++i) pthread_join(fast[i], 0);
  done = 1;
  pthread_join(slow, 0);
  for (int i = 0; i < 1000; ++i) keep[i] = Last(7777);
  for (int i = 0; i < 1000; i += 2) free(keep[i]);
  if (argc > 1) raise(SIGKILL);
  return 0;
}`

// checkLast checks the trace of busy. Every event after the first one that is left is in it.
func checkLast(t *testing.T, path string) Summary {
	t.Helper()
	s := summary(t, path)
	if g := ofSize(s, 7777); g.Objects != 1000 || g.AtEnd != 500 {
		t.Errorf("the last objects: %+v", g)
	}
	if s.Header.Overwritten <= 0 || s.Header.Length <= 0 || s.Header.Stopped != "" || s.Events > 600_000 {
		t.Errorf("%d events, %+v", s.Events, s.Header)
	}
	if s.Findings.UnknownFrees > 100 { // each thread has one live object at a time
		t.Errorf("%+v", s.Findings)
	}
	return s
}

func TestTheLastCallsAreKept(t *testing.T) {
	program := testkit.Compile(t, busy, "-O1", "-pthread")
	r := recordTrace(t, nil, "--max-bytes", "1MiB", "--keep-last", program)
	if r.code != 0 || !strings.Contains(r.said, "before were overwritten") {
		t.Errorf("%+v", r)
	}
	packed := checkLast(t, r.out)
	r = recordTrace(t, nil, "--max-bytes", "1MiB", "--keep-last", "--raw", program)
	raw := checkLast(t, r.out)
	if raw.Header.Size > 1<<20+64<<10 || packed.Header.Size >= raw.Header.Size {
		t.Errorf("%d bytes, packed %d", raw.Header.Size, packed.Header.Size)
	}
	if info, err := os.Stat(r.out); err != nil || info.Size() > 1<<20+64<<10 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestStacksOutliveTheirFirstCalls(t *testing.T) {
	program := testkit.Compile(t, busy, "-O1", "-pthread")
	r := recordTrace(t, nil, "--max-bytes", "1MiB", "--keep-last", "--stacks", "--sample", "3", program)
	s := summary(t, r.out)
	last, fast := byStack(s, "Last < main"), byStack(s, "Fast")
	if s.Header.Overwritten <= 0 || last.Objects < 100 || last.Bytes != last.Objects*7777 || fast.Objects == 0 {
		t.Errorf("%+v\n%+v\n%+v", last, fast, s.Header)
	}
}

func TestTheLastCallsOfAKilledProgram(t *testing.T) {
	out := filepath.Join(t.TempDir(), "killed.gtr")
	cmd := exec.Command(testkit.Compile(t, busy, "-O1", "-pthread"), "die")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+out, "GRANARY_RECORD_MAX_BYTES=1048576", "GRANARY_RECORD_KEEP_LAST=1")
	if err := cmd.Run(); err == nil {
		t.Fatal("the program was not killed")
	}
	checkLast(t, out)
}

// Where each chunk has buffers that threads still write into, none can be given again.
func TestMoreThreadsThanChunks(t *testing.T) {
	const crowd = `
#include <pthread.h>
#include <stdlib.h>
static pthread_barrier_t all;
static void* Thread(void* p) { free(malloc(100)); pthread_barrier_wait(&all); return p; }
int main(void) {
  pthread_t threads[100];
  pthread_barrier_init(&all, 0, 100);
  for (int i = 0; i < 100; ++i) pthread_create(&threads[i], 0, Thread, 0);
  for (int i = 0; i < 100; ++i) pthread_join(threads[i], 0);
  return 0;
}`
	r := recordTrace(t, nil, "--max-bytes", "1MiB", "--keep-last", testkit.Compile(t, crowd, "-pthread"))
	if r.code != 0 || !strings.Contains(r.said, "more threads than the file has chunks") {
		t.Errorf("%+v", r)
	}
	if s := summary(t, r.out); ofSize(s, 100).Objects == 0 {
		t.Error("what was recorded is lost")
	}
}
