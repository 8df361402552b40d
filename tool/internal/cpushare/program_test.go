package cpushare_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// program burns its time in malloc and free: it itself, or with an argument a child that it makes and waits for.
const program = `#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc > 1) { sleep(1); if (fork() != 0) { wait(NULL); return 0; } }
  for (;;) { void *volatile p = malloc(2000), *volatile q = malloc(30000); free(p); free(q); }
}`

func TestAProgramThatOnlyAllocatesSpendsItsTimeInTheAllocator(t *testing.T) {
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-O1", "-fno-builtin-malloc", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	kernel := func(pid int) (stopper, error) { return cpushare.Start(procfs.Live(), []int{pid}, 999) }
	stops := func(pid int) (stopper, error) {
		return cpushare.StartStops(procfs.Live(), func() []int { return procfs.Live().Tree(pid) }, 200)
	}
	t.Run("itself", func(t *testing.T) { burns(t, kernel, binary) })
	t.Run("a child that comes later", func(t *testing.T) { burns(t, kernel, binary, "child") })
	t.Run("itself, by stops", func(t *testing.T) { burns(t, stops, binary) })
	t.Run("a child that comes later, by stops", func(t *testing.T) { burns(t, stops, binary, "child") })
}

type stopper interface {
	Stop(allocator func(pid int) []cpushare.Range) cpushare.Share
}

func burns(t *testing.T, begin func(pid int) (stopper, error), binary string, args ...string) {
	p, err := measure.Start(measure.Spec{Path: binary, Args: args, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	pid := p.PID()
	defer p.Stop(0)
	s, err := begin(pid)
	if errors.Is(err, cpushare.ErrNotAllowed) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 200 { // until it has had the CPU for long enough
		time.Sleep(50 * time.Millisecond)
		seconds := 0.0
		for _, one := range procfs.Live().Tree(pid) {
			if st, err := procfs.Live().Stat(one); err == nil {
				seconds += st.CPUSeconds()
			}
		}
		if seconds > 0.3 {
			break
		}
	}
	code, err := cpushare.CodeOf(procfs.Live(), pid, cpushare.Libc(t))
	share := s.Stop(func(int) []cpushare.Range { return code })
	if err != nil || share.Samples < 20 || share.Allocator < 0.5 || share.Allocator > 1 {
		t.Errorf("%+v, %v", share, err)
	}
	select {
	case <-p.Done():
		t.Error("the program was taken for ended, or is")
	default:
	}
}
