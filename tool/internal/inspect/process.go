package inspect

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// process is the memory of a live process.
type process struct {
	pid int
}

// maxVectors is how many pieces the kernel takes in one call (UIO_MAXIOV).
const maxVectors = 1024

func (p process) read(spans []span) error {
	for len(spans) > 0 {
		n := min(len(spans), maxVectors)
		if err := p.readBatch(spans[:n]); err != nil {
			return err
		}
		spans = spans[n:]
	}
	return nil
}

func (p process) readBatch(spans []span) error {
	local, remote := vectors(spans)
	want := 0
	for _, s := range spans {
		want += len(s.to)
	}
	got, err := unix.ProcessVMReadv(p.pid, local, remote, 0)
	if err != nil {
		return p.explain(err, spans[0].address)
	}
	if got == want {
		return nil
	}
	return p.rest(spans, got)
}

// rest continues after a short read: the kernel stops at the first piece that it cannot read whole, and
// after about 2 GiB in one call.
func (p process) rest(spans []span, got int) error {
	for i, s := range spans {
		if got < len(s.to) {
			if got == 0 && i == 0 {
				return unmapped(s.address)
			}
			return p.read(append([]span{{s.address + uint64(got), s.to[got:]}}, spans[i+1:]...))
		}
		got -= len(s.to)
	}
	return nil
}

func (p process) write(address uint64, bytes []byte) error {
	local, remote := vectors([]span{{address, bytes}})
	n, err := unix.ProcessVMWritev(p.pid, local, remote, 0)
	if err != nil {
		return p.explain(err, address)
	}
	if n != len(bytes) {
		return unmapped(address)
	}
	return nil
}

func vectors(spans []span) ([]unix.Iovec, []unix.RemoteIovec) {
	local := make([]unix.Iovec, 0, len(spans))
	remote := make([]unix.RemoteIovec, 0, len(spans))
	for _, s := range spans {
		if len(s.to) == 0 {
			continue
		}
		v := unix.Iovec{Base: unsafe.SliceData(s.to)}
		v.SetLen(len(s.to))
		local = append(local, v)
		remote = append(remote, unix.RemoteIovec{Base: uintptr(s.address), Len: len(s.to)})
	}
	return local, remote
}

// ShareMemory is true for two processes with one address space: a child between vfork and exec uses its parent's heap.
func ShareMemory(a, b int) bool {
	const compareMemory = 1 // KCMP_VM
	order, _, err := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), compareMemory, 0, 0, 0)
	return err == 0 && order == 0
}

func (p process) close() error { return nil }

func (p process) explain(err error, address uint64) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return gone(p.pid)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return noRights(p.pid)
	case errors.Is(err, unix.EFAULT):
		return unmapped(address)
	case errors.Is(err, unix.ENOSYS):
		return failure(ErrNoRights, "this kernel does not offer process_vm_readv, or a seccomp filter forbids it: run the command outside that container")
	}
	return fmt.Errorf("read the memory of process %d: %w", p.pid, err)
}

func gone(pid int) error {
	return failure(ErrGone, "there is no process %d (any more): `granary ps` lists those that run", pid)
}

// noRights names the missing right, as far as this process can detect it.
func noRights(pid int) error {
	owner := os.Geteuid()
	if info, err := os.Stat(procfs.Live().Path(pid, "")); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			owner = int(stat.Uid)
		}
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope") // absent without Yama
	return missingRight(pid, os.Geteuid(), owner, strings.TrimSpace(string(scope)))
}

// missingRight is for the user that runs the command, the user that owns the process, and Yama's scope.
func missingRight(pid, user, owner int, scope string) error {
	const remedy = "run the command as root, or with the capability CAP_SYS_PTRACE"
	const figures = "; or, for its figures alone, start the program with GRANARY_CONF=stats_file:true"
	switch {
	case user == 0:
		return failure(ErrNoRights, "process %d may not be read by root here: it is outside this container, or this container withholds CAP_SYS_PTRACE; run the command on the host, or add that capability to the container", pid)
	case user != owner:
		return failure(ErrNoRights, "process %d belongs to user %d, or is protected as a setuid program is: "+remedy+figures, pid, owner)
	case scope != "" && scope != "0":
		return failure(ErrNoRights, "process %d may not be read because kernel.yama.ptrace_scope is %s: "+remedy+figures, pid, scope)
	}
	return failure(ErrNoRights, "process %d is protected from being read: "+remedy, pid)
}
