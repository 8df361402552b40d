package cold

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// mapped returns memory of this process, all of it resident, and its range.
func mapped(t *testing.T, bytes, advice int) ([]byte, Range) {
	t.Helper()
	const align = 2 << 20
	raw, err := unix.Mmap(-1, 0, bytes+align, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(raw); err != nil {
			t.Error(err)
		}
	})
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(raw))))
	skip := int(-start & (align - 1))
	memory := raw[skip : skip+bytes]
	if err := unix.Madvise(memory, advice); err != nil {
		t.Skip(err)
	}
	for i := 0; i < bytes; i += 4096 {
		memory[i] = 1
	}
	return memory, Range{start + uint64(skip), start + uint64(skip+bytes)}
}

func openOwn(t *testing.T) Source {
	t.Helper()
	s, err := Open(procfs.Live(), os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	t.Logf("by %s", s.Name())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// bytes reads how much of r is in memory, and how much of that was accessed.
func bytes(t *testing.T, s Source, r Range) (inMemory, accessed uint64) {
	t.Helper()
	_, err := s.Sample([]Range{r}, func(part Range, touched bool) {
		if part.Start < r.Start || part.End > r.End || part.End <= part.Start {
			t.Errorf("[%#x, %#x) was read, which is outside of [%#x, %#x)", part.Start, part.End, r.Start, r.End)
		}
		inMemory += part.End - part.Start
		if touched {
			accessed += part.End - part.Start
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return inMemory, accessed
}

func TestAccessesAreFoundPageByPage(t *testing.T) {
	s := openOwn(t)
	const size, page = 64 << 20, 4096
	memory, r := mapped(t, size, unix.MADV_NOHUGEPAGE)
	for _, every := range []int{1, 7, 64} {
		bytes(t, s, r)
		for i := 0; i < size; i += every * page {
			memory[i]++
		}
		want := uint64((size/page + every - 1) / every * page)
		inMemory, accessed := bytes(t, s, r)
		// The kernel does not clear the bits of pages that wait in a CPU's batch for an LRU list, and another program
		// that watches the whole machine may clear bits in between.
		batches := uint64(32 * runtime.NumCPU() * page)
		if inMemory != size || accessed > want+batches || accessed < want-want/20 {
			t.Errorf("%d of %d bytes accessed, want %d of %d", accessed, inMemory, want, size)
		}
	}
}

func TestAPageThatIsNotInMemoryIsNotVisited(t *testing.T) {
	s := openOwn(t)
	const size = 8 << 20
	memory, r := mapped(t, size, unix.MADV_NOHUGEPAGE)
	if err := unix.Madvise(memory[size/4:size/2], unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if inMemory, _ := bytes(t, s, r); inMemory != size-size/4 {
		t.Errorf("%d bytes are in memory, want %d", inMemory, size-size/4)
	}
	if inMemory, _ := bytes(t, s, Range{r.Start + 4096, r.Start + 3*4096}); inMemory != 2*4096 {
		t.Errorf("%d bytes of two pages are in memory", inMemory)
	}
}

func TestAHugePageIsAccessedAsAWhole(t *testing.T) {
	s := openOwn(t)
	const size, huge = 8 << 20, 2 << 20
	memory, r := mapped(t, size, unix.MADV_HUGEPAGE)
	bytes(t, s, r)
	if _, accessed := bytes(t, s, r); accessed != 0 {
		t.Skip("another thread accessed the memory")
	}
	memory[huge+5]++
	switch _, accessed := bytes(t, s, r); accessed {
	case huge:
	case 4096:
		t.Skip("the kernel gave no huge page")
	default:
		t.Errorf("%d bytes were accessed, want %d", accessed, huge)
	}
}

func TestAProcessThatIsGone(t *testing.T) {
	openOwn(t)
	if s, err := Open(procfs.Live(), 1<<22-1); err == nil {
		t.Errorf("a process that is not there has a source: %v", s.Name())
	}
}

func TestOverlaps(t *testing.T) {
	ranges := []Range{{10, 20}, {30, 40}, {40, 50}}
	for of, want := range map[Range][]Range{
		{0, 10}: nil, {5, 12}: {{10, 12}}, {20, 30}: nil, {25, 35}: {{30, 35}}, {0, 100}: ranges, {15, 31}: {{15, 20}, {30, 31}},
		{45, 60}: {{45, 50}}, {50, 60}: nil,
	} {
		var got []Range
		overlaps(ranges, of, func(part Range) { got = append(got, part) })
		if !slices.Equal(got, want) {
			t.Errorf("overlaps of %v are %v", of, got)
		}
	}
}

func TestPIDsOfAContainerAreNotThoseOfTheHost(t *testing.T) {
	for name, fails := range map[string]bool{"pid:[4026531836]": false, "pid:[4026532219]": true} {
		link := filepath.Join(t.TempDir(), "pid")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		if err := firstNamespace(link); (err != nil) != fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Root is not told to become root: a kernel may refuse its programs to root as well.
func TestRootIsToldWhatTheKernelRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user is told to become root")
	}
	if err := NeedSource(procfs.FS{Root: t.TempDir()}); err != nil && strings.Contains(err.Error(), "as root") {
		t.Error(err)
	}
}
