// Package inject calls functions in a running process: it borrows a thread that waits in a system call, and gives it back
// as it was.
package inject

import (
	"debug/elf"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// ErrBusy says that no thread of the process waited where it can be borrowed.
var ErrBusy = errors.New("no thread of it waits for input or time, where one can be borrowed to load the recorder")

// A Call is a function of the process with one or two arguments. A text is copied to the stack of the thread, and its
// address is the first argument.
type Call struct {
	Function uint64
	Text     string // ends with 0 in the process
	Second   uint64
}

// A Thread is borrowed from a process until Close.
type Thread interface {
	// Run returns what the function returns.
	Run(c Call) (uint64, error)
	Close() error
}

// Borrow stops a thread that waits in a system call in which it holds no lock of the loader or the allocator. It tries for
// as long as it is told.
func Borrow(proc procfs.FS, pid int, patience time.Duration) (Thread, error) {
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		threads, err := os.ReadDir(proc.Path(pid, "task"))
		if err != nil {
			return nil, proc.Explain(pid, err)
		}
		for _, entry := range threads {
			id, err := strconv.Atoi(entry.Name())
			if err != nil || !waits(proc, pid, id) || !takesFaults(proc, pid, id) {
				continue
			}
			t, err := borrow(pid, id)
			if err != nil {
				return nil, proc.Explain(pid, err)
			}
			if t != nil {
				return t, nil
			}
		}
		if time.Now().After(until) {
			return nil, ErrBusy
		}
	}
}

// waits reports whether the thread waits in a system call of those.
func waits(proc procfs.FS, pid, id int) bool {
	data, err := os.ReadFile(proc.Path(pid, fmt.Sprintf("task/%d/syscall", id)))
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 3 {
		return false
	}
	number, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return false // it is running
	}
	second, err := strconv.ParseUint(strings.TrimPrefix(fields[2], "0x"), 16, 64)
	return err == nil && rests(number, second)
}

// takesFaults reports whether the signal that ends a borrowed call reaches this process without a change of its own
// handler.
func takesFaults(proc procfs.FS, pid, id int) bool {
	status, err := proc.Status(pid)
	data, err2 := os.ReadFile(proc.Path(pid, fmt.Sprintf("task/%d/status", id)))
	if err != nil || err2 != nil {
		return false
	}
	blocked := ""
	for line := range strings.Lines(string(data)) {
		if mask, ok := strings.CutPrefix(line, "SigBlk:"); ok {
			blocked = strings.TrimSpace(mask)
		}
	}
	return !holds(blocked) && !holds(status["SigIgn"])
}

// holds reports whether a mask of signals, as the kernel prints it, has SIGSEGV.
func holds(mask string) bool {
	n, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
	const segmentationFault = 11
	return err != nil || bits.RotateLeft64(n, -(segmentationFault-1))&1 != 0
}

// Function is the address of a function that a library of the process exports. The library's name begins with one of
// the prefixes.
func Function(proc procfs.FS, pid int, symbol string, prefixes ...string) (uint64, error) {
	maps, err := proc.Maps(pid)
	if err != nil {
		return 0, proc.Explain(pid, err)
	}
	for _, m := range maps {
		if m.Offset != 0 || !hasPrefix(filepath.Base(m.Path), prefixes) {
			continue
		}
		if offset, ok := offsetIn(proc.Path(pid, fmt.Sprintf("map_files/%x-%x", m.Start, m.End)), symbol); ok {
			return m.Start + offset, nil
		}
		if offset, ok := offsetIn(proc.Path(pid, "root"+m.Path), symbol); ok {
			return m.Start + offset, nil
		}
	}
	return 0, fmt.Errorf("process %d has no function %s in a library %s", pid, symbol, strings.Join(prefixes, " or "))
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func offsetIn(path, symbol string) (uint64, bool) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, false
	}
	for _, s := range symbols {
		if s.Name == symbol && s.Section != elf.SHN_UNDEF {
			return s.Value, true
		}
	}
	return 0, false
}
