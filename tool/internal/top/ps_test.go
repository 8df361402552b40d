package top

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

var sample = List{Processes: []Process{
	{PID: 812, UID: 112, Program: "redis-server", Live: 700 << 20, Fragmentation: 1.414, Command: "/usr/bin/redis-server 127.0.0.1:6379",
		RSS: 1 << 30, PSS: 1<<30 - 4096, Heap: 990 << 20,
		Allocator: inspect.Running{Name: "granary", Version: "0.1.0", How: inspect.Preloaded, Path: "/usr/lib/libgranary.so.1",
			Others: []inspect.Loaded{{Name: "jemalloc", Path: "/usr/lib/libjemalloc.so.2"}}}},
	{PID: 77, UID: 0, Program: "sleep", Command: "sleep 60", RSS: 1200 << 10, PSS: 100 << 10, Heap: 16 << 10,
		Allocator: inspect.Running{Name: "glibc", Version: "2.36", How: inspect.System, Path: "/lib/libc.so.6"}},
	{PID: 9, UID: 5, Program: "own", Command: "own", RSS: 4096, PSS: 4096,
		Allocator: inspect.Running{Name: "unknown", How: inspect.Static, Path: "/own"}},
}}

func TestListAsTextAndJSON(t *testing.T) {
	var out bytes.Buffer
	sample.write(&out, 0)
	testkit.Check(t, "testdata/ps-list.golden", out.Bytes())
	out.Reset()
	sample.write(&out, 80)
	testkit.Check(t, "testdata/ps-list-80.golden", out.Bytes())
	out.Reset()
	if err := term.JSON(&out, sample); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/ps-list.json", out.Bytes())
}

func TestOrders(t *testing.T) {
	first := map[string]int{"rss": 812, "pss": 812, "heap": 812, "live": 812, "ratio": 812, "pid": 9, "allocator": 77, "command": 812}
	for _, by := range Orders() {
		l := List{Processes: append([]Process(nil), sample.Processes...)}
		if !l.Sort(by) || l.Processes[0].PID != first[by] {
			t.Errorf("by %s the first is %d, want %d", by, l.Processes[0].PID, first[by])
		}
	}
}

func call(args ...string) (string, string, int) {
	var out, errs bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &errs}, []cli.Command{ListProcesses}, append([]string{"ps"}, args...))
	return out.String(), errs.String(), code
}

func TestWrongCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"12x":          `there is no process called "12x"`,
		"--sort speed": `there is no order "speed": choose from allocator, command, heap, live, pid, pss, ratio, rss`,
		"--jsn":        "there is no option --jsn",
	} {
		if _, errs, code := call(strings.Fields(args)...); code != cli.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, said %q", args, code, errs)
		}
	}
}

func TestOneThatIsGone(t *testing.T) {
	_, errs, code := call("1073741824")
	if code != cli.CodeFailed || !strings.HasPrefix(errs, "granary: there is no process 1073741824") || strings.Count(errs, "\n") != 1 {
		t.Errorf("code %d, said %q", code, errs)
	}
}

// A stopped process is read as any other; its figures are those of smaps_rollup.
func TestStoppedProcess(t *testing.T) {
	process := testkit.Sleep(t)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l, err := Read(context.Background(), procfs.Live(), []int{process.Pid})
	if err != nil || len(l.Processes) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	m, err := procfs.Live().Memory(process.Pid)
	if p := l.Processes[0]; err != nil || p.RSS != m.RSS || p.Heap > p.RSS || p.UID != os.Getuid() {
		t.Errorf("%+v, but the kernel says %+v (%v)", p, m, err)
	}
}

func TestProcessOfAnotherUserIsRefusedClearly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "granary-ps")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	copied := dir + "/ps.test"
	if err := os.WriteFile(copied, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "-test.run=^TestAsAnotherUser$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GRANARY_TEST_AS_NOBODY=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestAsAnotherUser") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAsAnotherUser is run by the test above, as user 65534.
func TestAsAnotherUser(t *testing.T) {
	if os.Getenv("GRANARY_TEST_AS_NOBODY") == "" {
		t.Skip("the test before this one runs it")
	}
	_, errs, code := call("1")
	if code != cli.CodeFailed || !strings.Contains(errs, "process 1 may not be read: it belongs to user 0 and you are user 65534") {
		t.Errorf("code %d, said %q", code, errs)
	}
}

func TestTheHeapOfAGranaryProcessIsItsOwnAccount(t *testing.T) {
	library := testkit.Library(t)
	// 64 MiB of malloc's, and as much that the program maps past it.
	pid := testkit.Python(t, "import mmap, time\nheld = bytearray(b'x' * (64 << 20))\nm = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nm.write(b'y' * (64 << 20))\nprint('ready', flush=True)\ntime.sleep(60)",
		"LD_PRELOAD="+library, "GRANARY_CONF=dirty_decay_ms:0").Pid
	// What python allocated before is free, and is purged soon.
	var p Process
	var err error
	for try := 0; try < 100; try++ {
		if p, err = One(procfs.Live(), pid); err == nil && p.Heap <= 100<<20 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil || p.Allocator.Name != inspect.Granary || p.RSS < 128<<20 || p.Heap < 64<<20 || p.Heap > 100<<20 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The name of the library's file tells its interface's version only.
func TestTheVersionIsTheLibrarysOwn(t *testing.T) {
	bytes, err := os.ReadFile(testkit.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "libgranary.so.1")
	if err := os.WriteFile(named, bytes, 0o755); err != nil {
		t.Fatal(err)
	}
	want, err := inspect.OpenLibrary(named)
	if err != nil {
		t.Fatal(err)
	}
	pid := testkit.Python(t, "print('ready', flush=True); import time; time.sleep(60)", "LD_PRELOAD="+named).Pid
	for _, state := range []string{"in place", "gone"} {
		p, err := One(procfs.Live(), pid)
		if err != nil || p.Allocator.Name != inspect.Granary || p.Allocator.Version != want.Version {
			t.Errorf("its file %s: %+v (%v), want version %s", state, p.Allocator, err, want.Version)
		}
		if running, err := inspect.AllocatorOf(procfs.Live(), pid); state == "in place" && running.Version != want.Version {
			t.Errorf("its file says %q (%v), want %s", running.Version, err, want.Version)
		}
		_ = os.Remove(named) // the second time it is not there
	}
}

// smaps_rollup is the independent source: of a block that was never touched, nothing is resident.
func TestTheHeapIsWhatIsResidentOfIt(t *testing.T) {
	pid := testkit.Python(t, "import ctypes, time\nm = ctypes.CDLL(None).malloc\nm.argtypes = [ctypes.c_size_t]\nm.restype = ctypes.c_void_p\nheld = m(320 << 20)\nprint('ready', flush=True)\ntime.sleep(60)",
		"LD_PRELOAD="+testkit.Library(t)).Pid
	p, err := One(procfs.Live(), pid)
	m, memoryErr := procfs.Live().Memory(pid)
	if err != nil || memoryErr != nil || p.Heap == 0 || p.Heap > m.RSS {
		t.Errorf("heap of %d bytes, %d resident (%v, %v)", p.Heap, m.RSS, err, memoryErr)
	}
}

func TestAMachineWithoutGranaryIsReportedHowToGetTheFirst(t *testing.T) {
	plain := testkit.Sleep(t, "LD_PRELOAD=")
	out, errs, code := call("--allocator", "granary", strconv.Itoa(plain.Pid))
	if code != 0 || !strings.Contains(out, "granary run -- COMMAND") {
		t.Errorf("code %d, printed %q, said %q", code, out, errs)
	}
}

// Live bytes and the ratio are those of a program that sums up the usable sizes of its own objects.
func TestLiveBytesAndRatioOfAProgram(t *testing.T) {
	program := testkit.Compile(t, `#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char* held[100000];
int main(void) {
  size_t live = 0;
  for (int i = 0; i < 100000; i++) memset(held[i] = malloc(1000), 1, 1000);
  for (int i = 0; i < 100000; i++)
    if (i % 4) free(held[i]); else live += malloc_usable_size(held[i]);
  printf("%zu\n", live);
  fflush(stdout);
  return sleep(600) != 0;
}`)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.StartProcess(t, cmd)
	var live float64
	if _, err := fmt.Fscan(out, &live); err != nil {
		t.Fatal(err)
	}
	p, err := One(procfs.Live(), cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if got := float64(p.Live); math.Abs(got-live) > 0.01*live {
		t.Errorf("live %.0f, the program counts %.0f", got, live)
	}
	// A quarter of the objects pins nearly all pages: four times the live bytes, and RSS is as large.
	if rss := float64(p.RSS) / live; p.Fragmentation < 3.5 || p.Fragmentation > rss {
		t.Errorf("fragmentation ratio %.2f; RSS is %.2f times the live bytes", p.Fragmentation, rss)
	}
}
