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

	"granary/tool/internal/allocators"
	"granary/tool/internal/preload"
	"granary/tool/internal/procfs"
)

func TestCountKnownAnswer(t *testing.T) {
	got := count(map[uint64]int{10: 3, 19: 2, 20: 5, 99: 10}, 20, []Range{{10, 20}, {15, 18}})
	if got.Samples != 40 || math.Abs(got.Allocator-5.0/40) > 1e-12 || got.Kernel != 0.5 {
		t.Errorf("share %+v", got)
	}
	if got := count(nil, 0, nil); got.Allocator != 0 || got.Samples != 0 {
		t.Errorf("no samples: %+v", got)
	}
}

func libc(t *testing.T) allocators.Contender {
	t.Helper()
	finder := allocators.Finder{LibraryDirs: preload.LibraryDirs(), FindOurs: func() (string, error) { return "", errors.New("not needed") }}
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

// program burns its time in malloc and free.
const program = `#include <stdlib.h>
int main(void) { for (;;) { void *volatile p = malloc(2000), *volatile q = malloc(30000); free(p); free(q); } }`

func TestAProgramThatOnlyAllocatesSpendsItsTimeInTheAllocator(t *testing.T) {
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-O1", "-fno-builtin-malloc", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	s, err := Start(procfs.Live(), cmd.Process.Pid, 999)
	if errors.Is(err, ErrNotAllowed) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // until it has had the CPU for long enough
		time.Sleep(50 * time.Millisecond)
		if st, err := procfs.Live().Stat(cmd.Process.Pid); err == nil && st.CPUSeconds() > 0.3 {
			break
		}
	}
	code, err := CodeOf(procfs.Live(), cmd.Process.Pid, libc(t))
	share := s.Stop(code)
	if err != nil || share.Samples < 50 || share.Allocator < 0.5 {
		t.Errorf("%+v, %v", share, err)
	}
}
