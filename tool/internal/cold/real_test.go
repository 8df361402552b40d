package cold

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// holder keeps three sets of memory: 8 MiB of objects of 1024 bytes, as many of 2048 bytes, and a block of 8 MiB. For
// each letter that it reads, it accesses one set, and answers.
const holder = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { kSet = 8 << 20 };
static char* small[kSet / 1024];
static char* large[kSet / 2048];
static char* volatile block;
__attribute__((noinline)) static void keep_small(void) {
  for (int i = 0; i < kSet / 1024; i++) memset(small[i] = malloc(1024), 1, 1024);
}
__attribute__((noinline)) static void keep_large(void) {
  for (int i = 0; i < kSet / 2048; i++) memset(large[i] = malloc(2048), 1, 2048);
}
int main(void) {
  keep_small();
  keep_large();
  memset(block = malloc(kSet), 1, kSet);
  for (int c; putchar('.'), fflush(stdout), (c = getchar()) != EOF;) {
    if (c == 's') for (int i = 0; i < kSet / 1024; i++) *(volatile char*)small[i];
    if (c == 'l') for (int i = 0; i < kSet / 2048; i++) *(volatile char*)large[i];
    if (c == 'b') for (int i = 0; i < kSet; i += 4096) *(volatile char*)(block + i);
  }
  return 0;
}
`

type held struct {
	pid int
	in  io.Writer
	out *bufio.Reader
}

func hold(t *testing.T, conf string) *held {
	t.Helper()
	return holdUnder(t, "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF=huge_pages:never"+conf)
}

func holdUnder(t *testing.T, environ ...string) *held {
	t.Helper()
	return start(t, testkit.Compile(t, holder), environ...)
}

func start(t *testing.T, program string, environ ...string) *held {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), environ...)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	testkit.StartProcess(t, cmd)
	h := &held{cmd.Process.Pid, in, bufio.NewReader(out)}
	h.answered(t)
	return h
}

func (h *held) answered(t *testing.T) {
	t.Helper()
	if _, err := h.out.ReadByte(); err != nil {
		t.Fatal(err)
	}
}

func (h *held) access(t *testing.T, sets string) {
	t.Helper()
	for _, set := range sets {
		if _, err := fmt.Fprintf(h.in, "%c", set); err != nil {
			t.Fatal(err)
		}
		h.answered(t)
	}
}

// script is a clock that accesses memory in each interval instead of waiting.
type script struct {
	t         *testing.T
	h         *held
	intervals []string // the sets of each
	time      time.Duration
}

func (s *script) now() time.Duration { return s.time }

func (s *script) until(_ context.Context, end time.Duration) error {
	s.h.access(s.t, s.intervals[0])
	s.intervals, s.time = s.intervals[1:], end
	return nil
}

func needsSource(t *testing.T, pid int) {
	t.Helper()
	source, err := Open(procfs.Live(), pid)
	if err != nil {
		t.Skip(err)
	}
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
}

// near allows for pages that hold something else as well, and for another program that clears accessed bits.
func near(t *testing.T, what string, got, want uint64) {
	t.Helper()
	const set = 8 << 20
	if got+set/20 < want || got > want+set/20 {
		t.Errorf("%s: got %d bytes, want about %d", what, got, want)
	}
}

func TestAgesAreThoseOfTheAccesses(t *testing.T) {
	h := hold(t, "")
	needsSource(t, h.pid)
	clock := &script{t: t, h: h, intervals: []string{"lb", "l", "lb", "l", "l", "l", "l", "l"}}
	o := options{seconds: 80, intervals: 8}
	r, err := o.report(context.Background(), cli.Env{}, fmt.Sprint(h.pid), clock)
	if err != nil {
		t.Fatal(err)
	}
	if r.Intervals != 8 || r.Seconds != 80 || len(r.Ages) != 4 || r.Ages[0].Seconds != 10 || r.Ages[3].Seconds != 80 {
		t.Fatalf("the watch was not the one of the script: %+v", r)
	}
	const set = 8 << 20
	// Not accessed for 10, 20, 40 and 80 seconds. The block's last access was in the third interval of ten seconds.
	want := map[uint64][]uint64{1024: {set, set, set, set}, 2048: {0, 0, 0, 0}, 0: {set, set, set, 0}}
	for _, class := range r.Classes {
		for i, bytes := range want[class.Size] {
			near(t, fmt.Sprintf("objects of %d bytes, %.0f s", class.Size, r.Ages[i].Seconds), class.ByAge[i], bytes)
		}
		if want[class.Size] != nil {
			near(t, fmt.Sprintf("live objects of %d bytes", class.Size), class.InMemory, set)
		}
		delete(want, class.Size)
	}
	if len(want) != 0 {
		t.Errorf("classes are missing: %v", want)
	}
	near(t, "cold pages", r.ColdPages, set)
	if r.Huge != 0 {
		t.Errorf("%d bytes are in huge pages, which the process does not allow", r.Huge)
	}
}

func TestStacksHaveTheAgesOfTheirObjects(t *testing.T) {
	h := hold(t, ",prof:true,prof_sample:4096")
	needsSource(t, h.pid)
	r, err := options{seconds: 10, intervals: 1}.report(context.Background(), cli.Env{}, fmt.Sprint(h.pid), &script{t: t, h: h, intervals: []string{"l"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{"keep_small": 8 << 20, "keep_large": 0}
	for _, s := range r.Stacks {
		for function, cold := range want {
			if !slices.Contains(s.Stack, function) {
				continue
			}
			// 2048 samples or more of each set: five standard deviations of the estimate are 11 %.
			if s.InMemory < 7<<20 || s.InMemory > 9<<20 {
				t.Errorf("%s is estimated to hold %d bytes", function, s.InMemory)
			}
			if s.Cold()+1<<20 < cold || s.Cold() > cold+1<<20 {
				t.Errorf("%s is estimated to hold %d cold bytes, not %d", function, s.Cold(), cold)
			}
			delete(want, function)
		}
	}
	if len(want) != 0 || !r.Sampling {
		t.Errorf("stacks are missing: %v in %+v", want, r.Stacks)
	}
}

func TestPagesThatWereNotAccessedLeaveMemory(t *testing.T) {
	t.Run("Granary", func(t *testing.T) { leaveMemory(t, hold(t, ""), false) })
	t.Run("any allocator", func(t *testing.T) { leaveMemory(t, holdUnder(t), true) })
}

func leaveMemory(t *testing.T, h *held, any bool) {
	t.Helper()
	needsSource(t, h.pid)
	proc := procfs.Live()
	if swap, err := proc.Swap(); err != nil || swap.Free < 64<<20 {
		t.Skip("this machine has no swap: ", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // keeps one set hot
		defer close(done)
		for ctx.Err() == nil {
			h.access(t, "l")
			time.Sleep(time.Millisecond)
		}
	}()
	const older = 2 * time.Second
	o, err := Paging{Older: older, Rate: 1 << 30, Any: any}.PageOut(ctx, proc, h.pid, func(Step) error { return nil })
	cancel()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	const set = 8 << 20
	// The kernel says the same: two of three sets are in swap.
	if o.After.Swap < 2*set-set/10 || o.After.Swap > 2*set+set/2 || o.Before.Swap != 0 || o.Before.RSS < o.After.RSS+2*set-set/10 {
		t.Errorf("two sets of %d bytes are cold: %+v", set, o)
	}
	near(t, "paged out less returned", o.Out-o.Returned, o.After.Swap)
	h.access(t, "sb")
	after, err := usage(proc, h.pid)
	if err != nil {
		t.Fatal(err)
	}
	if after.Swap > set/4 || after.faults == o.After.faults {
		t.Errorf("after an access to both sets, %d bytes are in swap still, and %d major faults occurred", after.Swap, after.faults-o.After.faults)
	}
}

// scoped keeps 8 MiB in a scoped heap and 8 MiB in the shared one, object by object in turn.
const scoped = `
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct granary_heap granary_heap;
granary_heap* granary_heap_create(const char* name, size_t cap);
void* granary_heap_malloc(granary_heap* heap, size_t size);
enum { kObjects = (8 << 20) / 1024 };
static char *hot[kObjects], *cold[kObjects];
int main(void) {
  granary_heap* heap = granary_heap_create("cold", 0);
  for (int i = 0; i < kObjects; i++) {
    memset(hot[i] = malloc(1024), 1, 1024);
    memset(cold[i] = granary_heap_malloc(heap, 1024), 1, 1024);
  }
  for (int c; putchar('.'), fflush(stdout), (c = getchar()) != EOF;)
    for (int i = 0; i < kObjects; i++) *(volatile char*)(c == 'h' ? hot[i] : cold[i]);
  return 0;
}
`

func TestAScopedHeapSeparatesColdObjects(t *testing.T) {
	library := testkit.Library(t)
	h := start(t, testkit.Compile(t, scoped, library, "-Wl,-rpath,"+filepath.Dir(library)), "GRANARY_CONF=huge_pages:never")
	needsSource(t, h.pid)
	const set = 8 << 20
	for _, c := range []struct {
		accessed       string
		shared, inHeap uint64 // cold
	}{{"h", 0, set}, {"c", set, 0}} {
		r, err := options{seconds: 10, intervals: 1}.report(context.Background(), cli.Env{}, fmt.Sprint(h.pid), &script{t: t, h: h, intervals: []string{c.accessed}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Arenas) != 1 {
			t.Fatalf("there are %d scoped heaps, want one", len(r.Arenas))
		}
		near(t, "the scoped heap's pages in memory", r.Arenas[0].InMemory, set)
		near(t, "cold in the scoped heap after "+c.accessed, r.Arenas[0].Cold(), c.inHeap)
		near(t, "cold pages after "+c.accessed, r.ColdPages, set)
		for _, class := range r.Classes {
			if class.Size == 1024 {
				near(t, "cold in the shared heap after "+c.accessed, class.Cold(), c.shared)
			}
		}
	}
}
