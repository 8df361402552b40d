package trace

import (
	"encoding/binary"
	"errors"
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
