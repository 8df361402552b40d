package why

import (
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// glibc gives each further arena a range of this size, aligned to it.
const arenaBytes = 64 << 20

// OfOtherAllocator returns the waterfall of a process under another allocator. It uses the kernel's figures
// only: the live bytes of such a heap cannot be read from outside.
func OfOtherAllocator(pid int, subject string, running inspect.Running, regions []procfs.FootprintRegion, kernel uint64) Waterfall {
	w := Waterfall{PID: pid, Subject: subject, Allocator: running.Name, Kernel: kernel, Exact: true}
	var arenas, lazy uint64
	rest := make([]procfs.FootprintRegion, len(regions))
	copy(rest, regions)
	for i := range rest {
		r := &rest[i]
		if r.Kind != procfs.Anonymous && r.Kind != procfs.Heap {
			continue
		}
		n := min(r.LazyFree, r.RSS)
		lazy += n
		r.RSS -= n
		if running.Name == "glibc" && isArena(regions, i) {
			arenas += r.RSS
			r.RSS = 0
		}
	}
	w.add("arenas", int64(arenas), "heaps of all threads but the first")
	w.add("lazy", int64(lazy), "given to the kernel with MADV_FREE")
	w.outside(nil, rest)
	for i := range w.Steps {
		if w.Steps[i].Key == "anonymous" {
			w.Steps[i].Note = heapNote(running)
		}
		if w.Steps[i].Key == "break" {
			w.Steps[i].Note = breakNote(running)
		}
	}
	w.finish(regions)
	w.explain(nil, regions)
	return w
}

func breakNote(running inspect.Running) string {
	if running.Name == "glibc" {
		return "the heap of the first thread"
	}
	return "from sbrk"
}

func heapNote(running inspect.Running) string {
	if running.Name == "glibc" {
		return "blocks from 128 KiB on, and mappings"
	}
	return "heap of " + running.Name + ", and mappings"
}

// isArena recognises an arena: it begins at a multiple of 64 MiB, and up to the next all is reserved.
func isArena(regions []procfs.FootprintRegion, i int) bool {
	r := regions[i]
	if r.Start%arenaBytes != 0 || !strings.HasPrefix(r.Perms, "rw") || r.End-r.Start > arenaBytes {
		return false
	}
	if r.End-r.Start == arenaBytes {
		return true
	}
	return i+1 < len(regions) && regions[i+1].Start == r.End && strings.HasPrefix(regions[i+1].Perms, "---") && regions[i+1].End%arenaBytes == 0
}
