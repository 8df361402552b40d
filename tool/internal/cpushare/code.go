package cpushare

import (
	"debug/elf"
	"fmt"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// CodeOf returns the address ranges of an allocator's code in a process: the whole library, or the
// malloc part of the C library.
func CodeOf(proc procfs.FS, pid int, c allocators.Allocator) ([]Range, error) {
	maps, err := proc.Maps(pid)
	if err != nil {
		return nil, err
	}
	var code []Range
	base, found := uint64(0), false
	for _, m := range maps {
		if m.Path != c.Path {
			continue
		}
		if !found {
			base, found = m.Start-m.Offset, true
		}
		if len(m.Perms) > 2 && m.Perms[2] == 'x' {
			code = append(code, Range{m.Start, m.End})
		}
	}
	if !found {
		return nil, fmt.Errorf("%s is not in process %d", c.Path, pid)
	}
	if !c.System {
		return code, nil
	}
	r, err := mallocOf(c.Path)
	return []Range{{base + r.Start, base + r.End}}, err
}

// family are exported functions of glibc's malloc.o.
var family = []string{
	"malloc", "free", "cfree", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc",
	"malloc_trim", "malloc_usable_size", "mallopt", "mallinfo", "mallinfo2", "malloc_stats", "malloc_info",
	"__libc_malloc", "__libc_free", "__libc_calloc", "__libc_realloc", "__libc_memalign", "__malloc_hugepage_config",
}

// mallocOf returns the range of glibc's malloc.o in libc.so.6. An installed library has no symbols for
// malloc.o's static functions, but the linker keeps the code of one object file together: the range
// begins at the end of the exported function before malloc's and ends at the start of the one after.
func mallocOf(path string) (Range, error) {
	f, err := elf.Open(path)
	if err != nil {
		return Range{}, fmt.Errorf("read the C library: %w", err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return Range{}, fmt.Errorf("read the C library's symbols: %w", err)
	}
	r := Range{Start: ^uint64(0)}
	for _, s := range symbols {
		if slices.Contains(family, s.Name) && elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value != 0 {
			r.Start, r.End = min(r.Start, s.Value), max(r.End, s.Value+s.Size)
		}
	}
	if r.End == 0 {
		return Range{}, fmt.Errorf("%s exports no malloc", path)
	}
	return widen(r, symbols), nil
}

// slack bounds the distance of the rest of malloc.o from its exported functions.
const slack = 24 << 10

func widen(r Range, symbols []elf.Symbol) Range {
	low, high := r.Start-min(r.Start, slack), r.End+slack
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Value == 0 {
			continue
		}
		if s.Value < r.Start {
			low = max(low, min(s.Value+s.Size, r.Start))
		}
		if s.Value >= r.End {
			high = min(high, s.Value)
		}
	}
	return Range{low, high}
}
