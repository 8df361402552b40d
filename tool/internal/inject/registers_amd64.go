package inject

import (
	"io"

	"golang.org/x/sys/unix"
)

// System calls that only this processor's kernels have.
var restingHere = []uint64{unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_PAUSE, unix.SYS_EPOLL_WAIT}

const (
	extendedState = 0x202 // the kind of the register set that has floating point and vectors
	redZone       = 128   // bytes below the stack that the thread may use
)

type registers struct{ unix.PtraceRegsAmd64 }

func (r *registers) read(id int) error  { return unix.PtraceGetRegsAmd64(id, &r.PtraceRegsAmd64) }
func (r *registers) write(id int) error { return unix.PtraceSetRegsAmd64(id, &r.PtraceRegsAmd64) }

func (r *registers) at() uint64     { return r.Rip }
func (r *registers) stack() uint64  { return r.Rsp }
func (r *registers) result() uint64 { return r.Rax }

// systemCall returns the number and the second argument of the system call in which the thread was stopped.
func (r *registers) systemCall(io.ReaderAt) (number, second uint64, ok bool) {
	return r.Orig_rax, r.Rsi, true
}

// call prepares the call of a function. The return address is below its first argument.
func (r *registers) call(function, first, second uint64) {
	const direction = 1 << 10 // of string operations
	r.Rsp, r.Rip, r.Rdi, r.Rsi, r.Rax = first-8, function, first, second, 0
	r.Orig_rax = ^uint64(0) // the system call is not begun again here
	r.Eflags &^= direction
}
