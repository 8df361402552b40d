//go:build amd64 || arm64

package inject

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resting are system calls in which a thread waits for something outside of the process. The libraries that hold locks
// of the loader or the allocator make none of them.
var resting = append([]uint64{
	unix.SYS_READ, unix.SYS_NANOSLEEP, unix.SYS_ACCEPT, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_WAIT4, unix.SYS_WAITID,
	unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_ACCEPT4, unix.SYS_EPOLL_PWAIT2,
}, restingHere...)

// rests reports whether a system call is one of those, or the wait for a condition, a semaphore or the end of a thread.
// A lock is waited for by another operation of futex.
func rests(number, second uint64) bool {
	const waitBitset, operations = 9, 0x7f
	if number == unix.SYS_FUTEX {
		return second&operations == waitBitset
	}
	return slices.Contains(resting, number)
}

// A thread is stopped. All calls of its methods are made by the operating system's thread that stopped it.
type thread struct {
	id        int
	memory    *os.File
	registers registers
	extended  []byte // floating point and vectors
}

// The most that a register set of floating point and vectors needs.
const extendedBytes = 16 << 10

// borrow returns nil without an error if the thread has gone on meanwhile.
func borrow(pid, id int) (Thread, error) {
	runtime.LockOSThread()
	t, err := stopped(pid, id)
	if t == nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return t, nil
}

func stopped(pid, id int) (*thread, error) {
	if err := unix.PtraceSeize(id); err != nil {
		return nil, seizeError(pid, err)
	}
	t := &thread{id: id, extended: make([]byte, extendedBytes)}
	signal, err := t.stop()
	if err == nil {
		t.memory, err = os.OpenFile("/proc/"+strconv.Itoa(id)+"/mem", os.O_RDWR, 0)
	}
	if err != nil || signal != 0 || !t.waited() {
		if t.memory != nil {
			t.memory.Close()
		}
		_ = t.detach(signal) // it may have ended
		return nil, err
	}
	return t, nil
}

func seizeError(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil // the thread has ended
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("process %d cannot be stopped, perhaps because a debugger or strace has it: %w", pid, os.ErrPermission)
	}
	return err
}

// stop returns the signal that came at the same time, which is to be delivered.
func (t *thread) stop() (syscall.Signal, error) {
	if err := unix.PtraceInterrupt(t.id); err != nil {
		return 0, err
	}
	signal, err := t.await()
	if err != nil {
		return 0, err
	}
	if err := t.registers.read(t.id); err != nil {
		return signal, err
	}
	length, err := t.extendedState(unix.PTRACE_GETREGSET, t.extended)
	t.extended = t.extended[:length]
	return signal, err
}

func (t *thread) detach(signal syscall.Signal) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(t.id), 0, uintptr(signal), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// await returns the signal that has stopped the thread; 0: it was stopped by us.
func (t *thread) await() (syscall.Signal, error) {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(t.id, &status, unix.WALL, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
	if !status.Stopped() {
		return 0, unix.ESRCH
	}
	if status>>16 != 0 {
		return 0, nil
	}
	return status.StopSignal(), nil
}

func (t *thread) extendedState(request int, data []byte) (int, error) {
	set := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(t.id), extendedState, uintptr(unsafe.Pointer(&set)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(set.Len), nil
}

// waited reports whether the thread was stopped in a system call that rests.
func (t *thread) waited() bool {
	number, second, ok := t.registers.systemCall(t.memory)
	return ok && rests(number, second)
}

// Run lets the thread call the function with a return address at which nothing can be executed, and waits for the signal.
func (t *thread) Run(c Call) (uint64, error) {
	const frame = 16
	text := append([]byte(c.Text), 0)
	at := (t.registers.stack() - redZone - uint64(len(text))) &^ (frame - 1)
	returnTo := at - 8 // where the processor keeps it on the stack
	if _, err := t.memory.WriteAt(append(binary.LittleEndian.AppendUint64(nil, 0), text...), int64(returnTo)); err != nil {
		return 0, fmt.Errorf("write to the stack of thread %d: %w", t.id, err)
	}
	r := t.registers
	r.call(c.Function, at, c.Second)
	if err := r.write(t.id); err != nil {
		return 0, err
	}
	return t.untilReturn()
}

func (t *thread) untilReturn() (uint64, error) {
	var r registers
	for deliver := syscall.Signal(0); ; {
		if err := unix.PtraceCont(t.id, int(deliver)); err != nil {
			return 0, err
		}
		signal, err := t.await()
		if err != nil {
			return 0, fmt.Errorf("the process ended while the library was loaded: %w", err)
		}
		if err := r.read(t.id); err != nil {
			return 0, err
		}
		if signal == unix.SIGSEGV && r.at() == 0 {
			return r.result(), nil
		}
		if signal == unix.SIGSEGV || signal == unix.SIGBUS || signal == unix.SIGILL || signal == unix.SIGABRT {
			return 0, fmt.Errorf("signal %d ended the call in the process, which goes on as before", signal)
		}
		deliver = signal
	}
}

// Close lets the thread go on with the system call in which it waited.
func (t *thread) Close() error {
	defer runtime.UnlockOSThread()
	defer t.memory.Close()
	_, err := t.extendedState(unix.PTRACE_SETREGSET, t.extended)
	return errors.Join(err, t.registers.write(t.id), t.detach(0))
}
