package cold

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// A Range is part of an address space: [Start, End).
type Range struct{ Start, End uint64 }

// Bytes is its length.
func (r Range) Bytes() uint64 { return r.End - r.Start }

// A Source reports accesses to the pages of one process, from outside it. It is not safe for concurrent use.
//
// The processor sets the accessed bit of a page's table entry when it loads the entry into its TLB. A cleared bit
// therefore stays clear, although the page is accessed, until the entry leaves the TLB; a hot set that fits into the
// TLB would appear cold. MADV_COLD clears the bits and flushes the TLB.
type Source interface {
	// Name is the term for it: "idle page tracking".
	Name() string
	// Sample calls visit for each part of the ranges that is in memory, in any order: whether it was accessed since
	// the last sample. An access while a sample is taken may belong to either interval.
	Sample(ranges []Range, visit func(r Range, accessed bool)) (Cost, error)
	// Peek reads as Sample does, and begins no interval.
	Peek(ranges []Range, visit func(r Range, accessed bool)) error
	// PageOut moves pages of anonymous memory to swap. The kernel keeps a page that another process shares.
	PageOut(ranges []Range) error
	Close() error
}

// A Cost is the CPU time of samples, and for how long they kept the process waiting. While accesses are forgotten, mmap and munmap of the process wait, page faults do not.
type Cost struct {
	Reading    time.Duration
	Forgetting time.Duration
	Longest    time.Duration // the longest that mmap may have waited
}

// Total is the time in the kernel on behalf of the process.
func (c Cost) Total() time.Duration { return c.Reading + c.Forgetting }

// Add adds the cost of another sample.
func (c *Cost) Add(d Cost) {
	c.Reading += d.Reading
	c.Forgetting += d.Forgetting
	c.Longest = max(c.Longest, d.Longest)
}

// NeedSource is an error on a machine that does not tell which pages a process accesses.
func NeedSource(proc procfs.FS) error {
	source, err := Open(proc, os.Getpid())
	if err != nil {
		return err
	}
	return source.Close()
}

// Open selects the source that this machine offers for process pid. Each needs root.
func Open(proc procfs.FS, pid int) (Source, error) {
	idle, noIdle := openIdlePages(proc, pid)
	if noIdle == nil {
		return idle, nil
	}
	tables, noTables := openPageTables(pid)
	if noTables == nil {
		return tables, nil
	}
	if refused := errors.Is(noTables, unix.EPERM) || errors.Is(noIdle, unix.EACCES); refused && os.Geteuid() != 0 {
		return nil, fmt.Errorf("which pages process %d accesses is told to root only: run the command as root", pid)
	}
	return nil, fmt.Errorf("this machine does not tell which pages process %d accesses: there is no idle page tracking (%w), and no page tables (%w)", pid, noIdle, noTables)
}
