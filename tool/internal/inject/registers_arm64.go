package inject

import (
	"encoding/binary"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

var restingHere []uint64

const (
	extendedState = 2 // the kind of the register set that has floating point and vectors
	redZone       = 0
)

type registers struct{ unix.PtraceRegsArm64 }

// The kind of the register set that has the others.
const general = 1

func (r *registers) read(id int) error {
	return unix.PtraceGetRegSetArm64(id, general, &r.PtraceRegsArm64)
}

func (r *registers) write(id int) error {
	return unix.PtraceSetRegSetArm64(id, general, &r.PtraceRegsArm64)
}

func (r *registers) at() uint64     { return r.Pc }
func (r *registers) stack() uint64  { return r.Sp }
func (r *registers) result() uint64 { return r.Regs[0] }

// systemCall returns the number and the second argument of the system call in which the thread was stopped. The kernel has
// forgotten that there was one: it has moved the thread back to the instruction, or let the call fail with EINTR.
func (r *registers) systemCall(memory io.ReaderAt) (number, second uint64, ok bool) {
	const length = 4
	interrupted := int64(r.Regs[0]) == -int64(syscall.EINTR) && isSystemCall(memory, r.Pc-length)
	return r.Regs[8], r.Regs[1], interrupted || isSystemCall(memory, r.Pc)
}

func isSystemCall(memory io.ReaderAt, at uint64) bool {
	const svc = 0xd4000001
	var instruction [4]byte
	_, err := memory.ReadAt(instruction[:], int64(at))
	return err == nil && binary.LittleEndian.Uint32(instruction[:]) == svc
}

// call prepares the call of a function, with the return address 0.
func (r *registers) call(function, first, second uint64) {
	const link = 30
	r.Sp, r.Pc, r.Regs[0], r.Regs[1], r.Regs[link] = first, function, first, second, 0
}
