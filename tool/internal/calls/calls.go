// Package calls traces every allocation call of a running process for a while: sizes, lifetimes, threads
// and stacks, and the cost of tracing.
package calls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	"golang.org/x/sys/unix"
)

// A Trace holds the calls of a process during the trace.
type Trace struct {
	Title       string    `json:"process"`
	Seconds     float64   `json:"seconds"`
	Allocations uint64    `json:"allocations"` // traced
	Bytes       uint64    `json:"bytes"`       // requested sizes, rounded up to size classes
	Freed       uint64    `json:"freed"`       // of these allocations
	Lost        uint64    `json:"lost"`        // allocations of which no more than size and thread is known
	Ended       bool      `json:"process_ended"`
	Cost        Cost      `json:"cost"`
	Sizes       []Range   `json:"sizes"`     // bytes requested
	Lifetimes   []Range   `json:"lifetimes"` // milliseconds, of freed objects
	Threads     []Thread  `json:"threads"`   // the busiest first
	Stacks      []Stack   `json:"stacks"`    // the busiest first
	Missing     []string  `json:"without_symbols,omitempty"`
	Taken       time.Time `json:"taken"`
}

// A Range counts the values above Above, up to UpTo; UpTo 0 is no bound.
type Range struct {
	Above uint64 `json:"above"`
	UpTo  uint64 `json:"up_to,omitempty"`
	Calls uint64 `json:"calls"`
}

// A Thread has the calls of one thread. ID 0 is the sum of the threads without a row.
type Thread struct {
	ID          int    `json:"id"`
	Name        string `json:"name,omitempty"` // empty: it has ended
	Allocations uint64 `json:"allocations"`
	Bytes       uint64 `json:"bytes"`
	Frees       uint64 `json:"frees"` // of traced objects
}

// A Stack is one call stack of the allocator, the innermost function first.
type Stack struct {
	Functions   []string `json:"functions"`
	Allocations uint64   `json:"allocations"`
	Bytes       uint64   `json:"bytes"`
	Live        uint64   `json:"live"` // objects that were not freed
}

// A Cost compares the process while it was traced with the time just before.
type Cost struct {
	Before Activity `json:"before"`
	Traced Activity `json:"traced"`
}

// An Activity has the calls of a process during some time. Calls are allocations by the library's own counters.
type Activity struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Calls      uint64  `json:"calls"`
}

// reference is the time before the trace that its cost is compared with.
const reference = time.Second

// Take traces a process for a while, or until ctx is done.
func Take(ctx context.Context, s *inspect.Subject, f *symbol.Finder, wait time.Duration) (*Trace, error) {
	m := meter{s}
	begin, err := m.read()
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, min(reference, wait)); err != nil {
		return nil, err
	}
	before, err := m.read()
	if err != nil {
		return nil, err
	}
	h, err := follow(ctx, s, wait)
	if err != nil {
		return nil, err
	}
	t := newTrace(ctx, h, f)
	t.Cost.Before = before.since(begin)
	if after, err := m.read(); err == nil { // it may have ended
		t.Cost.Traced = after.since(before)
	}
	for i := range t.Threads {
		t.Threads[i].Name = threadName(s.PID, t.Threads[i].ID)
	}
	return t, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// follow samples every call.
func follow(ctx context.Context, s *inspect.Subject, wait time.Duration) (h profile.Heap, err error) {
	session, err := profile.Start(ctx, s, 1)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, session.Stop()) }()
	if session.WasOn() {
		return h, fmt.Errorf("process %d is being sampled, at one sample in %d bytes: end that, so that every call can be traced", s.PID, session.Rate)
	}
	return session.Follow(ctx, wait)
}

// newTrace evaluates the samples of all calls.
func newTrace(ctx context.Context, h profile.Heap, f *symbol.Finder) *Trace {
	samples := h.Samples
	t := &Trace{
		Title: h.Title, Seconds: samples.For.Seconds(), Allocations: samples.Taken, Lost: samples.Lost.Total(), Ended: h.Ended > 0, Taken: h.Taken,
		Sizes: powers(samples.Sizes), Lifetimes: lifetimes(samples.Stacks),
	}
	for _, thread := range samples.Threads {
		t.Bytes += uint64(thread.Allocated.Bytes)
		t.Freed += thread.Freed.Samples
		t.Threads = append(t.Threads, Thread{ID: thread.ID, Allocations: thread.Allocated.Samples, Bytes: uint64(thread.Allocated.Bytes), Frees: thread.Freed.Samples})
	}
	slices.SortStableFunc(t.Threads, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(b.Allocations, a.Allocations), cmp.Compare(b.Frees, a.Frees))
	})
	h.Before = nil // only calls are included, not older objects
	built, outcome := h.Named(ctx, f)
	t.Missing = outcome.Missing
	index := func(name string) int { return profile.Index(built.Profile, name) }
	for _, e := range profile.Entries(built.Profile, index(profile.AllocObjects)) {
		if n := e.Values[index(profile.AllocObjects)]; n > 0 {
			t.Stacks = append(t.Stacks, Stack{e.Stack, uint64(n), uint64(e.Values[index(profile.AllocSpace)]), uint64(e.Values[index(profile.InUseObjects)])})
		}
	}
	return t
}

// powers are the rows of a histogram whose row i counts values of at most 2^i, without the empty ones.
func powers(counts []float64) (out []Range) {
	for i, n := range counts {
		r := Range{UpTo: 1 << i, Calls: uint64(n)}
		if i > 0 {
			r.Above = 1 << (i - 1)
		}
		if i == len(counts)-1 {
			r.UpTo = 0
		}
		if n > 0 {
			out = append(out, r)
		}
	}
	return out
}

func lifetimes(stacks []inspect.Stack) []Range {
	var sum []float64
	for _, s := range stacks {
		for i, n := range s.Lifetimes {
			if i == len(sum) {
				sum = append(sum, 0)
			}
			sum[i] += n
		}
	}
	return powers(sum)
}

// A meter reads the counters of a process.
type meter struct{ *inspect.Subject }

func (m meter) read() (reading, error) {
	spent, err := cpuTime(m.PID)
	if err != nil {
		return reading{}, err
	}
	figures, err := m.Snapshot()
	if err != nil {
		return reading{}, err
	}
	calls, _ := figures.Value("allocations")
	large, _ := figures.Value("large_allocations")
	return reading{time.Now(), Activity{CPUSeconds: spent.Seconds(), Calls: calls + large}}, nil
}

// cpuTime is exact to the nanosecond, unlike that of /proc/PID/stat.
func cpuTime(pid int) (time.Duration, error) {
	const cpuClock = 2 // CPUCLOCK_SCHED, of clock_getcpuclockid
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClock), &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

type reading struct {
	at time.Time
	Activity
}

func (r reading) since(earlier reading) Activity {
	return Activity{r.at.Sub(earlier.at).Seconds(), r.CPUSeconds - earlier.CPUSeconds, r.Calls - earlier.Calls}
}

// threadName is empty for a thread that has ended.
func threadName(pid, id int) string {
	name, err := os.ReadFile(procfs.Live().Path(pid, fmt.Sprintf("task/%d/comm", id)))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}
