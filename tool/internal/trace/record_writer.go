package trace

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// A writer is the process that writes into a recording, by its number in the command's PID namespace; 0: there is none.
type writer int

// findWriter looks for the process, which says in the header what number it has in which namespace.
func findWriter(proc procfs.FS, h recordingHeader) writer {
	if h.PIDNamespace == 0 || h.PIDNamespace == pidNamespace(filepath.Join(proc.Root, "self/ns/pid")) {
		return writer(h.PID)
	}
	pids, _ := proc.PIDs() // without them it is not found
	for _, pid := range pids {
		if proc.NumberInside(pid) == int(h.PID) && pidNamespace(proc.Path(pid, "ns/pid")) == h.PIDNamespace {
			return writer(pid)
		}
	}
	return 0
}

func (w writer) isAlive() bool {
	return w > 0 && !errors.Is(unix.Kill(int(w), 0), unix.ESRCH)
}

// startOf is when the recording at the path began, in nanoseconds; 0: it cannot be read.
func startOf(path string) uint64 {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	field := make([]byte, 8)
	if _, err := file.ReadAt(field, int64(unsafe.Offsetof(recordingHeader{}.UnixNanoseconds))); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(field)
}

// pidNamespace is the inode of the namespace at a path; 0: it cannot be read.
func pidNamespace(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		return status.Ino
	}
	return 0
}

// endNow makes this moment the last one of a recording that was switched off: its process notes the time once in 1,024 calls of
// a thread. Nothing depends on it but how long the recording seems to be, so a failure is not reported.
func endNow(path string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	var h recordingHeader
	if err := binary.Read(io.NewSectionReader(file, 0, headerBytes), binary.LittleEndian, &h); err != nil {
		return
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	if last, ok := h.at(uint64(now.Nano())); ok {
		stamp := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, last.Ticks), last.Nanoseconds)
		_, _ = file.WriteAt(stamp, int64(unsafe.Offsetof(h.Last)))
	}
}

// at is a moment after the last one in both clocks; false: they are not known well enough.
func (h recordingHeader) at(nanoseconds uint64) (stamp, bool) {
	if h.Last.Ticks <= h.First.Ticks || h.Last.Nanoseconds <= h.First.Nanoseconds || nanoseconds <= h.Last.Nanoseconds {
		return stamp{}, false
	}
	perNanosecond := float64(h.Last.Ticks-h.First.Ticks) / float64(h.Last.Nanoseconds-h.First.Nanoseconds)
	return stamp{h.First.Ticks + uint64(perNanosecond*float64(nanoseconds-h.First.Nanoseconds)), nanoseconds}, true
}
