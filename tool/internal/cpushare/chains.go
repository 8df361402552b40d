package cpushare

import (
	"encoding/binary"
	"runtime"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// A Chain is how often a thread was found at one place.
type Chain struct {
	Address uint64   // where it was
	Caller  uint64   // the result of Unwind; 0: none
	Above   []uint64 // return addresses by Walk, or by frame pointers, as far as the program keeps them
	Count   int
}

// A Moment is a thread at the time of a sample.
type Moment struct {
	Address uint64
	// The stack pointer, the frame pointer and, on arm64, the link register.
	Stack, Frame, Link uint64
	Top                []byte // of the stack, from Stack on
}

// An Unwind finds the return address in the allocator's caller. It returns 0 if the sample is not
// inside the allocator or the caller is unknown.
type Unwind func(Moment) uint64

// A Walk finds all return addresses of a sample, the innermost first, as far as it knows how to.
type Walk func(Moment) []uint64

// How many bytes of the stack are taken. The frames of an allocator are shallow.
const (
	stackTop   = 2048
	wholeStack = 4096
)

// The kernel's numbers of the registers: PERF_REG_X86_*, PERF_REG_ARM64_*.
var frameRegister, linkRegister, stackRegister = map[string]int{"amd64": 6, "arm64": 29}[runtime.GOARCH],
	map[string]int{"arm64": 30}[runtime.GOARCH], map[string]int{"amd64": 7, "arm64": 31}[runtime.GOARCH]

// StartChains samples a process as Start does, and also records the callers of the allocator.
func StartChains(proc procfs.FS, pid, perSecond int, unwind Unwind) (*Sampler, error) {
	threads, err := threads(proc, pid)
	if err != nil {
		return nil, err
	}
	return start(&Sampler{chains: map[string]*Chain{}, unwind: unwind}, threads, perSecond)
}

// StartStacks samples a process as Start does, and also records the stacks that walk finds.
func StartStacks(proc procfs.FS, pid, perSecond int, walk Walk) (*Sampler, error) {
	threads, err := threads(proc, pid)
	if err != nil {
		return nil, err
	}
	return start(&Sampler{chains: map[string]*Chain{}, walk: walk}, threads, perSecond)
}

// top is how many bytes of the stack a sample has.
func (s *Sampler) top() uint64 {
	if s.walk != nil {
		return wholeStack
	}
	return stackTop
}

// wantStacks also requests call chains, registers and the top of the stack.
func (s *Sampler) wantStacks(attr *unix.PerfEventAttr) {
	attr.Sample_type |= unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER
	attr.Sample_stack_user = uint32(s.top())
	attr.Sample_max_stack = 64
	attr.Sample_regs_user = 1<<frameRegister | 1<<stackRegister
	if linkRegister != 0 {
		attr.Sample_regs_user |= 1 << linkRegister
	}
}

const (
	userContext  = ^uint64(511)  // PERF_CONTEXT_USER, -512: addresses of the program follow
	firstContext = ^uint64(4094) // PERF_CONTEXT_MAX, -4095: the lowest of such markers
)

// chain reads the rest of a sample: [at, end) of the ring, beginning with the address.
func (s *Sampler) chain(data []byte, at, end uint64) {
	next := func() (v uint64) {
		if at+8 <= end {
			v = word(data, at)
		}
		at += 8
		return v
	}
	c := Chain{Address: next()}
	next() // the process and the thread
	user := false
	for n := min(next(), 1<<10); n > 0; n-- {
		switch v := next(); {
		case v == userContext:
			user = true
		case v >= firstContext:
			user = false
		case user && v != c.Address:
			c.Above = append(c.Above, v)
		}
	}
	m := Moment{Address: c.Address}
	if next() != 0 { // the ABI; 0 where the thread has no user registers
		m.Frame = next()
		if linkRegister != 0 {
			m.Link = next()
		}
		m.Stack = next()
	}
	size := min(next(), s.top())
	for i := uint64(0); i < size; i += 8 {
		m.Top = binary.NativeEndian.AppendUint64(m.Top, next())
	}
	m.Top = m.Top[:min(next(), uint64(len(m.Top)))] // as much as there was
	if s.walk != nil {
		c.Above = s.walk(m)
	} else {
		c.Caller = s.unwind(m)
	}
	s.keep(c)
}

// keep merges equal chains.
func (s *Sampler) keep(c Chain) {
	const most = 1 << 18 // of different ones
	key := binary.NativeEndian.AppendUint64(nil, c.Address)
	for _, w := range append([]uint64{c.Caller}, c.Above...) {
		key = binary.NativeEndian.AppendUint64(key, w)
	}
	known := s.chains[string(key)]
	if known == nil {
		if len(s.chains) >= most { // without its callers it is one that there is already, or nearly so
			c.Above, key = nil, key[:16]
			if known = s.chains[string(key)]; known != nil {
				known.Count++
				return
			}
		}
		known = &c
		s.chains[string(key)] = known
	}
	known.Count++
}

// StopChains ends the sampling and returns what was found, and how often the process was in the kernel.
func (s *Sampler) StopChains() (chains []Chain, kernel int) {
	s.Stop(nil)
	for _, c := range s.chains {
		chains = append(chains, *c)
	}
	return chains, s.kernel
}
