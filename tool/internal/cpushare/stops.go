package cpushare

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// Stops samples where the kernel gives no samples: many times a second it stops threads that are running for some
// microseconds and reads their program counters. Only stops outside system calls are used: the allocator's part of them,
// times the part of the CPU time that is the user's, is the share. A page fault is charged to the code that caused it.
type Stops struct {
	proc  procfs.FS
	pids  func() []int
	every time.Duration
	stop  chan struct{}
	done  chan struct{} // closed when nothing is stopped any more
	hits  map[place]int
	times map[int]*cpuTimes
	turn  int
	list  []thread
}

// A thread of a process.
type thread struct{ pid, tid int }

// cpuTimes are the CPU times of a process at its first and last reading.
type cpuTimes struct{ first, last procfs.Stat }

const (
	renewEvery = 100 * time.Millisecond // the list of threads; more seldom where it is long
	lookAt     = 64                     // threads at most in each turn
	stopAtMost = 8                      // of them
	patience   = 5 * time.Second        // for a thread that does not stop
)

// StartStops samples the threads of the processes that pids names, again and again, perSecond times at most.
func StartStops(proc procfs.FS, pids func() []int, perSecond int) (*Stops, error) {
	all := pids()
	if len(all) == 0 {
		return nil, unix.ESRCH
	}
	// A parent that calls plain wait for a process would mistake a stop for its exit.
	fd, err := unix.PidfdOpen(all[0], 0)
	if err != nil {
		return nil, fmt.Errorf("wait for the end of process %d: %w", all[0], err)
	}
	_ = unix.Close(fd) // it was open
	s := &Stops{
		proc: proc, pids: pids, every: time.Second / time.Duration(perSecond), stop: make(chan struct{}), done: make(chan struct{}),
		hits: map[place]int{}, times: map[int]*cpuTimes{},
	}
	allowed := make(chan error, 1)
	go s.loop(all[0], allowed)
	return s, <-allowed
}

// loop runs on one thread of the system, which alone may ask about what it stopped. The thread lives on: the kernel
// ends servers together with the thread that started them, which may be this one.
func (s *Stops) loop(first int, allowed chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	_, err := s.counter(thread{first, first})
	if allowed <- err; err != nil {
		return
	}
	var renewed time.Time
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		if now := time.Now(); now.Sub(renewed) >= renewEvery*time.Duration(1+len(s.list)/lookAt) {
			s.renew()
			renewed = now
		}
		s.sample()
		select {
		case <-s.stop:
			s.account()
			return
		case <-ticker.C:
		}
	}
}

// renew lists the threads that there are now.
func (s *Stops) renew() {
	s.account()
	s.list = s.list[:0]
	for _, pid := range s.pids() {
		own, _ := threads(s.proc, pid) // it may have ended
		for _, tid := range own {
			s.list = append(s.list, thread{pid, tid})
		}
	}
}

// account records the CPU times of the processes.
func (s *Stops) account() {
	for _, pid := range s.pids() {
		st, err := s.proc.Stat(pid)
		if err != nil {
			continue
		}
		if s.times[pid] == nil {
			s.times[pid] = &cpuTimes{first: st}
		}
		s.times[pid].last = st
	}
}

// sample stops running threads, beginning after the last thread of the previous call, until as many
// threads were outside system calls as there are CPUs.
func (s *Stops) sample() {
	wanted, stops := runtime.NumCPU(), stopAtMost
	for range min(len(s.list), lookAt) {
		s.turn = (s.turn + 1) % len(s.list)
		t := s.list[s.turn]
		if !s.running(t) {
			continue
		}
		if at, err := s.counter(t); err == nil && at != 0 { // it may have ended
			s.hits[place{t.pid, at}]++
			wanted--
		}
		if stops--; stops == 0 || wanted == 0 {
			return
		}
	}
}

func (s *Stops) running(t thread) bool {
	text, err := os.ReadFile(s.proc.Path(t.pid, "task/"+strconv.Itoa(t.tid)+"/stat"))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	return strings.HasPrefix(after, "R")
}

// counter stops a thread, reads its program counter, and lets it continue. It returns 0 for a thread in a system call.
func (s *Stops) counter(t thread) (uint64, error) {
	if err := unix.PtraceSeize(t.tid); err != nil {
		return 0, ErrNotAllowed
	}
	if err := unix.PtraceInterrupt(t.tid); err != nil { // it has ended
		return 0, s.gone(t)
	}
	signal, err := s.stopped(t)
	if err != nil {
		return 0, err
	}
	text, readErr := os.ReadFile(s.proc.Path(t.pid, "task/"+strconv.Itoa(t.tid)+"/syscall"))
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(t.tid), 0, uintptr(signal), 0, 0); errno != 0 {
		return 0, s.gone(t)
	}
	if readErr != nil {
		return 0, fmt.Errorf("read the registers of a thread: %w", readErr)
	}
	return position(string(text)), nil
}

// position reads /proc/PID/syscall: `-1 SP PC` of a thread outside system calls.
func position(text string) uint64 {
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "-1" {
		return 0
	}
	at, _ := strconv.ParseUint(strings.TrimPrefix(words[2], "0x"), 16, 64) // 0 where it is no number
	return at
}

// stopInfo is the part of the kernel's siginfo_t that tells of a child.
type stopInfo struct {
	_, _, code, _ int32
	_, _, status  int32
}

const (
	cldTrapped  = 4   // CLD_TRAPPED
	eventStop   = 128 // PTRACE_EVENT_STOP: a stop by PTRACE_INTERRUPT, without a signal
	allChildren = 0x40000000
)

// stopped waits until a thread has stopped; signal is one that it was about to get and must not lose.
func (s *Stops) stopped(t thread) (signal int, err error) {
	var info unix.Siginfo
	for {
		err = unix.Waitid(unix.P_PID, t.tid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|allChildren, nil)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	stop := (*stopInfo)(unsafe.Pointer(&info))
	if stop.code != cldTrapped {
		return 0, s.gone(t)
	}
	if stop.status>>8 == eventStop {
		return 0, nil
	}
	return int(stop.status & 0xff), nil
}

// gone detaches an exited thread so that its parent can reap it. A child of this process is reaped elsewhere.
func (s *Stops) gone(t thread) error {
	if t.tid != t.pid || s.parent(t.pid) != os.Getpid() {
		_, _ = unix.Wait4(t.tid, nil, unix.WNOHANG|allChildren, nil) // it may have ended
	}
	return unix.ESRCH
}

func (s *Stops) parent(pid int) int {
	status, _ := s.proc.Status(pid) // none: it has ended
	parent, _ := strconv.Atoi(status["PPid"])
	return parent
}

// Stop ends the sampling and counts the samples, as Stop of a Sampler does.
func (s *Stops) Stop(allocator func(pid int) []Range) Share {
	close(s.stop)
	select {
	case <-s.done:
	case <-time.After(patience):
		return Share{}
	}
	user, all := 0.0, 0.0
	for _, t := range s.times {
		own := t.last.UserSeconds - t.first.UserSeconds
		user, all = user+own, all+own+t.last.SysSeconds-t.first.SysSeconds
	}
	return scaled(count(s.hits, 0, allocator), user, all)
}

// scaled makes a share of the moments outside system calls one of all CPU time.
func scaled(share Share, user, all float64) Share {
	if all <= 0 {
		return Share{}
	}
	share.Allocator *= user / all
	share.Kernel = 1 - user/all
	return share
}
