package trace

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// Two threads call each function of a library and of their own, of known sizes; main waits for their end.
const livesLong = `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void* _Znwm(size_t); void _ZdlPv(void*);
static void* volatile before;
static void* work(void* p) {
  for (int i = 0; i < 20000; ++i) {
    void* volatile o = malloc(7411);
    o = realloc(o, 7421); free(o);
    o = calloc(1, 7431); free(o);
    if (posix_memalign((void**)&o, 64, 7441) == 0) free(o);
    o = _Znwm(7451); _ZdlPv(o);
    free(strdup("a text of the C library, which allocates it"));
    void* old = __atomic_exchange_n(&before, 0, __ATOMIC_SEQ_CST);
    free(i > 1000 ? old : 0);
    usleep(1000);
  }
  return 0;
}
int main(void) {
  before = malloc(7401);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], 0, work, 0);
  puts("ready"); fflush(stdout);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
  return 0;
}`

// injected records a process that was started without the recorder.
func injected(t *testing.T, pid int, args ...string) (run, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace.gtr")
	said, err := attached(t, pid, append([]string{"--lib", testkit.Recorder(t), "-o", out}, args...)...)
	return run{out: out, said: said}, err
}

func needInjection(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("a library can be loaded into a running process on x86-64 and arm64 only")
	}
}

func start(t *testing.T, below, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+below)
	testkit.StartProcess(t, cmd)
	testkit.Await(t, cmd.Process.Pid, "S")
	return cmd.Process.Pid
}

func TestAProcessWithoutTheRecorderIsRecorded(t *testing.T) {
	needInjection(t)
	for _, flags := range [][]string{{"-Wl,-z,lazy"}, {"-Wl,-z,now", "-Wl,-z,relro"}} {
		program := testkit.Compile(t, livesLong, append(flags, "-fno-builtin", "-w", "-pthread", "-lstdc++")...)
		for _, below := range []string{"", testkit.Library(t)} {
			pid := start(t, below, program)
			for range 2 {
				r, err := injected(t, pid, "--seconds", "0.5", "--written")
				if err != nil {
					t.Fatalf("below %q, %q: %v", below, flags, err)
				}
				s := summary(t, r.out)
				for _, size := range []uint64{7411, 7421, 7431, 7441, 7451, 44} {
					if g := ofSize(s, size); g.Objects < 20 || g.AtEnd > 2 {
						t.Errorf("below %q, %q: of %d bytes: %+v", below, flags, size, g)
					}
				}
				if s.Threads > 3 || s.Header.Program != program {
					t.Errorf("%d threads, %+v", s.Threads, s.Header)
				}
			}
			if !procfs.Live().Alive(pid) {
				t.Error("the process ended")
			}
		}
	}
}

// The object that was allocated before is freed: the trace says that it is unknown, and a replay does without it.
func TestObjectsFromBeforeTheRecording(t *testing.T) {
	needInjection(t)
	pid := start(t, "", testkit.Compile(t, `
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void* old[50];
int main(void) {
  for (int i = 0; i < 50; ++i) old[i] = malloc(7501);
  puts("ready"); fflush(stdout);
  for (int i = 0;; ++i) {
    free(malloc(7511));
    if (getppid() == 1) return 0;
    if (i >= 200 && i < 250) free(old[i - 200]);
    usleep(1000);
  }
}`, "-fno-builtin", "-w"))
	r, err := injected(t, pid, "--seconds", "1.5")
	if err != nil {
		t.Fatal(err)
	}
	s := summary(t, r.out)
	if g := ofSize(s, 7511); g.Objects < 20 || g.AtEnd > 1 || ofSize(s, 7501).Objects != 0 || s.Findings.UnknownFrees > 50 {
		t.Errorf("%+v, %+v", g, s.Findings)
	}
	if out, err := exec.Command(testkit.BenchProgram(t, "replay"), "plan="+planOf(t, r.out)).CombinedOutput(); err != nil {
		t.Errorf("replay: %v\n%s", err, out)
	}
}

func TestARunningRedisIsRecorded(t *testing.T) {
	needInjection(t)
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	pid := start(t, "", server, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--loglevel", "warning")
	ask := func(args ...string) string {
		out, err := exec.Command("redis-cli", append([]string{"-s", socket}, args...)...).CombinedOutput()
		if err != nil || strings.HasPrefix(string(out), "ERR") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for range 500 {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fill := func(prefix string, keys int) {
		ask("EVAL", "for i = 1, ARGV[1] do redis.call('set', KEYS[1] .. ':' .. i, string.rep('x', 3000)) end", "1", prefix, strconv.Itoa(keys))
	}
	fill("before", 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			fill("during"+strconv.Itoa(i), 100)
			ask("DEL", "before:"+strconv.Itoa(i+1))
		}
	}()
	r, err := injected(t, pid, "--seconds", "2")
	if err != nil {
		t.Fatal(err)
	}
	<-done
	s := summary(t, r.out)
	if s.Events < 1000 || s.Findings.UnknownFrees == 0 || filepath.Base(s.Header.Program) != filepath.Base(realPath(t, server)) {
		t.Errorf("%d events, %+v, %+v", s.Events, s.Findings, s.Header)
	}
	if got := ask("EXISTS", "during0:1", "before:999"); got != "2" {
		t.Errorf("after the recording the server has %s of 2 keys", got)
	}
	if out, err := exec.Command(testkit.BenchProgram(t, "replay"), "plan="+planOf(t, r.out)).CombinedOutput(); err != nil {
		t.Errorf("replay: %v\n%s", err, out)
	}
}

func realPath(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// What was recorded is readable if the process is killed meanwhile.
func TestARecordedProcessIsKilled(t *testing.T) {
	needInjection(t)
	pid := start(t, "", testkit.Compile(t, livesLong, "-fno-builtin", "-w", "-pthread", "-lstdc++"))
	out := filepath.Join(t.TempDir(), "trace.gtr")
	go func() {
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if info, err := os.Stat(out); err == nil && info.Size() > 0 {
				break
			}
		}
		time.Sleep(200 * time.Millisecond)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	if _, err := attached(t, pid, "--lib", testkit.Recorder(t), "-o", out); err != nil {
		t.Fatal(err)
	}
	if g := ofSize(summary(t, out), 7411); g.Objects == 0 {
		t.Errorf("%+v", g)
	}
}

func TestProcessesThatCannotBeAttachedTo(t *testing.T) {
	needInjection(t)
	static := start(t, "", testkit.Compile(t, forever, "-fno-builtin", "-w", "-static"))
	own := start(t, "", testkit.Compile(t, `
#include <stdio.h>
#include <unistd.h>
static char heap[1 << 20], *next = heap;
void* malloc(size_t n) { char* p = next; next += (n + 15) & ~15ul; return p; }
void free(void* p) {}
int main(void) { puts("ready"); fflush(stdout); for (;;) { free(malloc(8)); next = heap; sleep(1); } }`, "-fno-builtin", "-w", "-rdynamic"))
	plain := start(t, "", testkit.Compile(t, forever, "-fno-builtin", "-w"))
	for _, c := range []struct {
		pid     int
		args    []string
		message string
	}{
		{static, nil, "is a static program"},
		{own, nil, "has malloc in its own program"},
		{plain, []string{"--follow"}, "belong to the start"},
		{plain, []string{"-o", "/nowhere/trace.gtr"}, "there is no folder /nowhere"},
		{plain, []string{"--sample", "0"}, "records nothing"},
	} {
		if _, err := injected(t, c.pid, c.args...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%q: %v", c.message, err)
		}
	}
	for code, message := range map[uint64]string{
		attachNoAllocator: "has no malloc", attachNoFile: "could not create",
		attachNoSlots: "its own copy of an allocator", 9: "of another version",
	} {
		if err := attachError(7, code, "/tmp/x"); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%d: %v", code, err)
		}
	}
}
