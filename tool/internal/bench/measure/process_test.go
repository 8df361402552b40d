package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

var errNotYet = errors.New("not yet")

func never(context.Context) error { return errNotYet }

func TestWaitReadyTellsTheLogOfADeadServer(t *testing.T) {
	p := shell(t, "echo starting; echo 'bind: Address already in use'; exit 1")
	err := p.WaitReady(context.Background(), "redis-server", time.Minute, never)
	if err == nil || !strings.Contains(err.Error(), "redis-server died (exit status 1); the end of its log says: starting | bind: Address already in use") {
		t.Errorf("err = %v", err)
	}
}

func TestWaitReadyGivesUpOnAServerThatNeverAnswers(t *testing.T) {
	p := shell(t, "echo waiting; exec sleep 60")
	err := p.WaitReady(context.Background(), "redis-server", 50*time.Millisecond, never)
	if err == nil || !strings.Contains(err.Error(), "did not become ready within 50ms (not yet)") {
		t.Errorf("err = %v", err)
	}
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := shell(t, "exec sleep 60").WaitReady(ctx, "x", time.Minute, never); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestStopEndsAStubbornProcessAndItsChildren(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	p := shell(t, "trap '' TERM; sleep 60 & echo $! > "+child+"; while :; do wait; done")
	var pid int
	err := p.WaitReady(context.Background(), "sh", time.Minute, func(context.Context) error {
		text, err := os.ReadFile(child)
		if err == nil && strings.HasSuffix(string(text), "\n") {
			_, err = fmt.Sscan(string(text), &pid)
			return err
		}
		return errNotYet
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(10 * time.Millisecond)
	if !gone(p.PID()) {
		t.Error("the process is still there")
	}
	for range 500 { // the process that adopted the child reaps it
		if st, err := procfs.Live().Stat(pid); err != nil || st.State == "Z" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("its child is still running")
}

func TestOutputKeepsWhatAProgramSaysWhenItFails(t *testing.T) {
	_, err := Output(context.Background(), "/bin/sh", []string{"-c", "echo no >&2; exit 3"}, nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no") {
		t.Errorf("err = %v", err)
	}
	_, err = Output(context.Background(), "/bin/sh", []string{"-c", "echo cannot; exit 3"}, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("what a program says on standard output: %v", err)
	}
}

func TestCleanDropsWhatAllocatorsRead(t *testing.T) {
	got := Clean([]string{"PATH=/bin", "LD_PRELOAD=x", "MALLOC_ARENA_MAX=1", "MALLOC_CONF=y", "GRANARY_LIB=z", "HOME=/h"})
	if !reflect.DeepEqual(got, []string{"PATH=/bin", "HOME=/h"}) {
		t.Errorf("left %q", got)
	}
}

func TestFreePortIsFree(t *testing.T) {
	a, err := FreePort()
	if err != nil || a <= 1024 {
		t.Errorf("port %d, %v", a, err)
	}
}

// run measures a shell script as a program.
func run(t *testing.T, ctx context.Context, script string, variables ...string) (Usage, string, error) {
	t.Helper()
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "log")}
	return Program(ctx, procfs.Live(), spec, variables)
}

func TestAProgramIsMeasuredAndNotThisProcess(t *testing.T) {
	ballast := make([]byte, 64<<20) // would show in the peak of a direct child
	for i := range ballast {
		ballast[i] = 1
	}
	u, printed, err := run(t, context.Background(), `echo "metric x 1 s $GREETING"`, "GREETING=it's me")
	if err != nil {
		t.Fatal(err)
	}
	if printed != "metric x 1 s it's me\n" {
		t.Errorf("output %q", printed)
	}
	if u.PeakRSS < 100<<10 || u.PeakRSS > 16<<20 || int(u.PeakRSS) > len(ballast) {
		t.Errorf("peak RSS of a shell is %.0f bytes", u.PeakRSS)
	}
	if u.Faults <= 0 || u.Wall <= 0 {
		t.Errorf("usage %+v", u)
	}
}

// The program's own getrusage is the independent source of its peak: it touches 200 MiB, frees them, and ends.
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
  printf("%ld\n", u.ru_maxrss);
  return 0;
}`)
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	u, printed, err := Program(context.Background(), procfs.Live(), Spec{Path: program, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "log")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var own float64 // KiB
	if _, err := fmt.Sscan(printed, &own); err != nil || own < 200<<10 {
		t.Fatalf("the program printed %q (%v)", printed, err)
	}
	if math.Abs(u.PeakRSS-own*1024) > 1<<20 {
		t.Errorf("peak RSS %.1f MiB; the program says %.1f", u.PeakRSS/(1<<20), own/1024)
	}
}

func TestTheCPUTimeOfAProgramIsCounted(t *testing.T) {
	u, _, err := run(t, context.Background(), "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err != nil || u.User+u.Sys <= 0 || u.User > u.Wall*64 {
		t.Errorf("usage %+v, %v", u, err)
	}
}

func TestTheFailureOfAProgramIsExplained(t *testing.T) {
	for script, want := range map[string]string{
		"echo bad; exit 7": "failed (exit status 7); the end of its log says: bad",
		"kill -SEGV $$":    "failed (died of SIGSEGV); the end of its log says: (nothing)",
	} {
		if _, _, err := run(t, context.Background(), script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestAProgramIsStoppedWithItsChildren(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := run(t, ctx, "sleep 60 & sleep 60"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

// The guard of a launched program ends the program when no process has the other end of its pipe any more, as after the
// death of this process.
func TestAProgramEndsWithWhoeverMeasuresIt(t *testing.T) {
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	p, err := Launch(context.Background(), procfs.Live(), Spec{Path: "/bin/sleep", Args: []string{"60"}, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "log")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(0)
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	p.held.lifeline.Close()
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Error("the program runs on")
	}
}

func TestWhatIsReadOfALaunchedProgramIsItsOwn(t *testing.T) {
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		p, err := Launch(context.Background(), procfs.Live(), Spec{Path: "/bin/sleep", Args: []string{"60"}, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "log")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Begin(); err != nil {
			t.Fatal(err)
		}
		p.AwaitExec(context.Background(), procfs.Live())
		words, err := procfs.Live().Cmdline(p.PID())
		if err != nil || len(words) == 0 || words[0] != "/bin/sleep" {
			t.Errorf("it is %q (%v)", words, err)
		}
		p.Stop(0)
	}
}
