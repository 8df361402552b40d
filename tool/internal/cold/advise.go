package cold

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An adviser calls process_madvise for one process.
type adviser struct {
	pid  int
	file int // its pidfd
}

func openAdviser(pid int) (*adviser, error) {
	file, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &adviser{pid, file}, nil
}

func (a *adviser) close() error { return unix.Close(a.file) }

// Bounds of one call, so that it holds the address space for a short time only.
const (
	maxRanges = 256
	maxBytes  = 16 << 20
)

// advise gives advice for ranges of whole pages, and returns how long the longest call took. A range that the process
// unmapped meanwhile is left out.
func (a *adviser) advise(ranges []Range, advice int) (longest time.Duration, err error) {
	for len(ranges) > 0 {
		var batch []unix.RemoteIovec
		batch, ranges = cut(ranges)
		start := time.Now()
		err := a.call(batch, advice)
		longest = max(longest, time.Since(start))
		if err != nil {
			return longest, err
		}
	}
	return longest, nil
}

// cut takes as many ranges, or as much of the first one, as one call may have.
func cut(ranges []Range) (batch []unix.RemoteIovec, rest []Range) {
	bytes := uint64(0)
	for len(ranges) > 0 && len(batch) < maxRanges && bytes < maxBytes {
		r := ranges[0]
		n := min(r.Bytes(), maxBytes-bytes)
		batch = append(batch, unix.RemoteIovec{Base: uintptr(r.Start), Len: int(n)})
		bytes += n
		if n == r.Bytes() {
			ranges = ranges[1:]
		} else {
			ranges = append([]Range{{r.Start + n, r.End}}, ranges[1:]...)
		}
	}
	return batch, ranges
}

func (a *adviser) call(batch []unix.RemoteIovec, advice int) error {
	for len(batch) > 0 {
		n, err := processMadvise(a.file, batch, advice)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOMEM), err == nil && n == 0: // unmapped
			n = batch[0].Len
		case err != nil:
			return a.explain(err)
		}
		for len(batch) > 0 && n >= batch[0].Len {
			n -= batch[0].Len
			batch = batch[1:]
		}
	}
	return nil
}

func processMadvise(file int, batch []unix.RemoteIovec, advice int) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(file), uintptr(unsafe.Pointer(unsafe.SliceData(batch))), uintptr(len(batch)), uintptr(advice), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (a *adviser) explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return errors.New("this kernel has no process_madvise: Linux 5.10 or newer is needed")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("process_madvise for process %d is not permitted: run the command as root, or with the capabilities CAP_SYS_NICE and CAP_SYS_PTRACE", a.pid)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the kernel refuses advice for the memory of process %d: the process locks it (mlock), or it consists of huge pages of hugetlbfs", a.pid)
	}
	return fmt.Errorf("process_madvise for process %d: %w", a.pid, err)
}
