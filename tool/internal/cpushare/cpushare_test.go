package cpushare

import (
	"debug/elf"
	"errors"
	"math"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/preload"
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

// Libc is the C library, as an allocator.
func Libc(t *testing.T) allocators.Allocator {
	t.Helper()
	finder := allocators.Finder{LibraryDirs: preload.LibraryDirs(), FindGranary: func() (string, error) { return "", errors.New("not needed") }}
	selected, _, err := finder.Select("glibc")
	if err != nil {
		t.Fatal(err)
	}
	return selected[0]
}

func TestMallocOfTheCLibraryHoldsItsFamilyAndLittleElse(t *testing.T) {
	r, err := mallocOf(Libc(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	if size := r.End - r.Start; size < 8<<10 || size > 96<<10 {
		t.Errorf("malloc.o seems to have %d bytes", size)
	}
	f, err := elf.Open(Libc(t).Path)
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
