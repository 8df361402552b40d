package cold

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nearby is how far apart accessed pages may be to be forgotten as one range: one more flush of the TLB costs more
// than advice for pages that were not accessed.
const nearby = 64 << 10

// A forgetter samples by reading accesses, and then advising the kernel that the accessed pages are cold: this clears
// their accessed bits, flushes the TLB, and moves them to the inactive list, where the kernel does not reclaim a page
// that is accessed again.
type forgetter struct {
	process *adviser
	read    func(ranges []Range, visit func(r Range, accessed bool)) error
	after   func(ranges []Range) error // a further action at the begin of an interval; nil: none
}

func (f *forgetter) Peek(ranges []Range, visit func(r Range, accessed bool)) error {
	return f.read(ranges, visit)
}

func (f *forgetter) PageOut(ranges []Range) error {
	_, err := f.process.advise(merged(ranges, 0), unix.MADV_PAGEOUT)
	return err
}

// Sample costs the CPU time of its thread. Time in which a busy machine lets the thread wait is no cost to the process,
// and must not make the next interval longer.
func (f *forgetter) Sample(ranges []Range, visit func(r Range, accessed bool)) (c Cost, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	var hot []Range
	err = f.read(ranges, func(r Range, accessed bool) {
		visit(r, accessed)
		if accessed {
			if last := len(hot) - 1; last >= 0 && hot[last].End == r.Start {
				hot[last].End = r.End
			} else {
				hot = append(hot, r)
			}
		}
	})
	c.Reading = threadTime() - start
	if err != nil {
		return c, err
	}
	c.Longest, err = f.process.advise(merged(hot, nearby), unix.MADV_COLD)
	if err == nil && f.after != nil {
		err = f.after(ranges)
	}
	c.Forgetting = threadTime() - start - c.Reading
	return c, err
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // every kernel has this clock
	}
	return time.Duration(t.Nano())
}
