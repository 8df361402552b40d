package micro

import (
	"strconv"

	"github.com/granary-allocator/granary/tool/internal/bench/result"

	"golang.org/x/sys/unix"
)

// firstWarmed is the size that is touched before the first run of a program, whose memory is not yet
// known.
const firstWarmed = 512 << 20

// A warmer touches as much memory as a program will need, and unmaps it. The host of a virtual machine may
// take free memory away; without a warmer the first program would wait for the host to return this memory,
// and the next program would not.
type warmer struct {
	most  int64            // bytes, so that it never exhausts the machine's memory
	peaks map[string]int64 // of each program, bytes
	touch func(bytes int64)
}

func newWarmer(machine result.Machine) *warmer {
	most := int64(machine.MemoryBytes / 4)
	if limit, err := strconv.ParseInt(machine.MemoryLimit, 10, 64); err == nil {
		most = min(most, limit/4)
	}
	return &warmer{most: most, peaks: map[string]int64{}, touch: touch}
}

// warm is called before a program runs.
func (w *warmer) warm(program string) {
	bytes, known := w.peaks[program]
	if !known {
		bytes = firstWarmed
	}
	if bytes = min(bytes, w.most); bytes > 0 {
		w.touch(bytes)
	}
}

// note records the memory that a program needed.
func (w *warmer) note(program string, peak float64) {
	w.peaks[program] = max(w.peaks[program], int64(peak))
}

// touch writes to each page of so much memory. That the system refuses it is no reason not to measure.
func touch(bytes int64) {
	memory, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // whole ones are what the host takes
	for at := 0; at < len(memory); at += 4096 {
		memory[at] = 1
	}
	_ = unix.Munmap(memory)
}
