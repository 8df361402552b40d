package cpushare

import (
	"debug/elf"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

func TestCountKnownAnswer(t *testing.T) {
	code := func(pid int) []Range {
		if pid == 7 { // the same addresses hold something else there
			return []Range{{100, 120}}
		}
		return []Range{{10, 20}, {15, 18}}
	}
	hits := map[place]int{{1, 10}: 3, {1, 19}: 2, {1, 20}: 5, {1, 99}: 9, {7, 12}: 1}
	got := count(hits, 20, code)
	if got.Samples != 40 || math.Abs(got.Allocator-5.0/40) > 1e-12 || got.Kernel != 0.5 {
		t.Errorf("share %+v", got)
	}
	if got := count(nil, 0, code); got.Allocator != 0 || got.Samples != 0 {
		t.Errorf("no samples: %+v", got)
	}
}

func libc(t *testing.T) allocators.Allocator {
	t.Helper()
	finder := allocators.Finder{LibraryDirs: preload.LibraryDirs(), FindGranary: func() (string, error) { return "", errors.New("not needed") }}
	selected, _, err := finder.Select("glibc")
	if err != nil {
		t.Fatal(err)
	}
	return selected[0]
}

func TestMallocOfTheCLibraryHoldsItsFamilyAndLittleElse(t *testing.T) {
	r, err := mallocOf(libc(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	if size := r.End - r.Start; size < 8<<10 || size > 96<<10 {
		t.Errorf("malloc.o seems to have %d bytes", size)
	}
	f, err := elf.Open(libc(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, _ := f.DynamicSymbols()
	for _, s := range symbols {
		inside := r.Start <= s.Value && s.Value < r.End
		if s.Name == "malloc" && !inside || s.Name == "printf" && inside || s.Name == "memcpy" && inside {
			t.Errorf("%s inside: %v", s.Name, inside)
		}
	}
}

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
	kernel := func(pid int) (stopper, error) { return Start(procfs.Live(), []int{pid}, 999) }
	stops := func(pid int) (stopper, error) {
		return StartStops(procfs.Live(), func() []int { return procfs.Live().Tree(pid) }, 200)
	}
	t.Run("itself", func(t *testing.T) { burns(t, kernel, binary) })
	t.Run("a child that comes later", func(t *testing.T) { burns(t, kernel, binary, "child") })
	t.Run("itself, by stops", func(t *testing.T) { burns(t, stops, binary) })
	t.Run("a child that comes later, by stops", func(t *testing.T) { burns(t, stops, binary, "child") })
}

type stopper interface {
	Stop(allocator func(pid int) []Range) Share
}

func burns(t *testing.T, begin func(pid int) (stopper, error), binary string, args ...string) {
	p, err := measure.Start(measure.Spec{Path: binary, Args: args, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	pid := p.PID()
	defer p.Stop(0)
	s, err := begin(pid)
	if errors.Is(err, ErrNotAllowed) {
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
	code, err := CodeOf(procfs.Live(), pid, libc(t))
	share := s.Stop(func(int) []Range { return code })
	if err != nil || share.Samples < 20 || share.Allocator < 0.5 || share.Allocator > 1 {
		t.Errorf("%+v, %v", share, err)
	}
	select {
	case <-p.Done():
		t.Error("the program was taken for ended, or is")
	default:
	}
}

func TestWhereAThreadIsKnownAnswers(t *testing.T) {
	for text, want := range map[string]uint64{
		"-1 0x7ffc9c8d1b40 0x55d0c0a01149\n":                             0x55d0c0a01149,
		"202 0x7f0 0x80 0x0 0x0 0x0 0x0 0x7f64f0ff8d90 0x7f6510a8d117\n": 0, // in a system call
		"running\n": 0,
		"":          0,
	} {
		if got := position(text); got != want {
			t.Errorf("%q is at %#x, want %#x", text, got, want)
		}
	}
}

func TestSharesOfUserTimeAreScaledToAll(t *testing.T) {
	// Half of the moments outside system calls, and three quarters of the time is the user's.
	got := scaled(Share{Samples: 40, Allocator: 0.5}, 1.5, 2)
	if got.Samples != 40 || got.Allocator != 0.375 || got.Kernel != 0.25 {
		t.Errorf("%+v", got)
	}
	if got := scaled(Share{Samples: 40, Allocator: 0.5}, 0, 0); got != (Share{}) {
		t.Errorf("without any time: %+v", got)
	}
}
