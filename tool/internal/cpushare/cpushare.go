// Package cpushare samples where a running process spends its CPU time, and computes the allocator's
// share. It uses the kernel's samples (perf_event_open) and needs no other program.
package cpushare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// ErrNotAllowed says that the kernel allows this user no samples.
var ErrNotAllowed = errors.New("the kernel gives no samples to this user; run as root, or set kernel.perf_event_paranoid to 2")

// A Range is addresses of a process from Start to End.
type Range struct{ Start, End uint64 }

const (
	ringPages = 64 // of samples for each CPU: minutes' worth at the rates used here, and read often
	userMode  = 2  // PERF_RECORD_MISC_USER
	modeMask  = 7  // PERF_RECORD_MISC_CPUMODE_MASK
)

// A Sampler collects samples of one process.
type Sampler struct {
	rings  [][]byte
	events []int
	hits   map[place]int // in user code
	kernel int
	chains map[string]*Chain // nil: only addresses are wanted
	unwind Unwind            // one of these two
	walk   Walk
	stop   chan struct{}
	done   chan struct{}
}

// A place is the code location of one sample.
type place struct {
	pid     int
	address uint64
}

// Start samples all threads of processes, also the threads and children to come, perSecond times a CPU second.
func Start(proc procfs.FS, pids []int, perSecond int) (*Sampler, error) {
	var all []int
	for i, pid := range pids {
		own, err := threads(proc, pid)
		if err != nil && i == 0 { // a child may have ended meanwhile
			return nil, err
		}
		all = append(all, own...)
	}
	return start(&Sampler{}, all, perSecond)
}

func start(s *Sampler, threads []int, perSecond int) (*Sampler, error) {
	s.hits, s.stop, s.done = map[place]int{}, make(chan struct{}), make(chan struct{})
	for cpu := range runtime.NumCPU() {
		if err := s.open(threads, cpu, perSecond); err != nil {
			s.close()
			return nil, err
		}
	}
	go s.loop()
	return s, nil
}

func threads(proc procfs.FS, pid int) ([]int, error) {
	entries, err := os.ReadDir(proc.Path(pid, "task"))
	if err != nil {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	var out []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, tid)
		}
	}
	return out, nil
}

// open makes an event a thread on one CPU; they share one ring.
func (s *Sampler) open(threads []int, cpu, perSecond int) error {
	ring := -1
	for _, tid := range threads {
		fd, err := s.event(tid, cpu, perSecond)
		switch {
		case errors.Is(err, unix.ESRCH): // the thread has ended
			continue
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOENT):
			return ErrNotAllowed
		case err != nil:
			return fmt.Errorf("ask the kernel for samples: %w", err)
		}
		s.events = append(s.events, fd)
		if ring < 0 {
			ring = fd
			memory, err := unix.Mmap(fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return fmt.Errorf("map the samples: %w", err)
			}
			s.rings = append(s.rings, memory)
		} else if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, ring); err != nil {
			return fmt.Errorf("join the samples of two threads: %w", err)
		}
	}
	return nil
}

// event asks for samples of user and kernel time, or of user time alone where only that is allowed.
func (s *Sampler) event(tid, cpu, perSecond int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(perSecond),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID, Bits: unix.PerfBitFreq | unix.PerfBitInherit,
	}
	if s.chains != nil {
		s.wantStacks(&attr)
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		attr.Bits |= unix.PerfBitExcludeKernel
		fd, err = unix.PerfEventOpen(&attr, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	return fd, err
}

func (s *Sampler) loop() {
	defer close(s.done)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.drain()
		}
	}
}

func (s *Sampler) drain() {
	for _, ring := range s.rings {
		s.read(ring)
	}
}

// read takes the records out of a ring. The first page is struct perf_event_mmap_page, where data_head
// and data_tail are at offset 1024.
func (s *Sampler) read(ring []byte) {
	head := (*uint64)(unsafe.Pointer(&ring[1024]))
	tail := (*uint64)(unsafe.Pointer(&ring[1032]))
	data := ring[os.Getpagesize():]
	end := atomic.LoadUint64(head)
	at := *tail
	for end-at >= 8 {
		header := word(data, at)
		kind, mode, length := uint32(header), uint16(header>>32)&modeMask, header>>48
		if length < 8 || length > end-at {
			break
		}
		if kind == unix.PERF_RECORD_SAMPLE && length >= 24 { // address, process and thread
			if mode == userMode {
				s.hits[place{int(uint32(word(data, at+16))), word(data, at+8)}]++
				if s.chains != nil {
					s.chain(data, at+8, at+length)
				}
			} else {
				s.kernel++
			}
		}
		at += length
	}
	atomic.StoreUint64(tail, end)
}

// word reads eight bytes of a ring; records are multiples of eight and so never split one.
func word(data []byte, at uint64) uint64 {
	at %= uint64(len(data))
	return binary.NativeEndian.Uint64(data[at : at+8])
}

func (s *Sampler) close() {
	for _, ring := range s.rings {
		_ = unix.Munmap(ring) // it was mapped
	}
	for _, fd := range s.events {
		_ = unix.Close(fd) // it was open
	}
	s.rings, s.events = nil, nil
}

// A Share is how the samples fell.
type Share struct {
	Samples   int
	Allocator float64 // of all samples
	Kernel    float64
}

// Stop ends the sampling and counts the samples within the allocator's code, which has another address in each
// process.
func (s *Sampler) Stop(allocator func(pid int) []Range) Share {
	close(s.stop)
	<-s.done
	s.drain()
	s.close()
	return count(s.hits, s.kernel, allocator)
}

func count(hits map[place]int, kernel int, allocator func(pid int) []Range) Share {
	share := Share{Samples: kernel}
	inside := 0
	if allocator == nil {
		allocator = func(int) []Range { return nil }
	}
	for at, n := range hits {
		share.Samples += n
		for _, r := range allocator(at.pid) {
			if r.Start <= at.address && at.address < r.End {
				inside += n
				break
			}
		}
	}
	if share.Samples > 0 {
		share.Allocator = float64(inside) / float64(share.Samples)
		share.Kernel = float64(kernel) / float64(share.Samples)
	}
	return share
}
