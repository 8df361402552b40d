package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A Sample holds the figures of one process at one moment. Sizes are in bytes.
type Sample struct {
	Taken     time.Time       `json:"taken"`
	Command   string          `json:"command"`
	Allocator inspect.Running `json:"allocator"`
	RSS       uint64          `json:"rss_bytes"`
	Faults    uint64          `json:"faults"`
	CPU       float64         `json:"cpu_seconds"`
	Threads   int             `json:"threads"`
	Kinds     []Part          `json:"kinds"` // the parts of RSS by the kernel's count
	Pressure  float64         `json:"memory_pressure_percent"`
	// Heap are the library's own figures; nil for other allocators.
	Heap *inspect.Snapshot `json:"heap,omitempty"`
}

// Part is the resident memory of one kind of mapping.
type Part struct {
	Kind  string `json:"kind"`
	Bytes uint64 `json:"bytes"`
}

// A Source supplies the data of the screens. Tests use a Source of their own.
type Source interface {
	List(ctx context.Context) (List, error)
	Sample(ctx context.Context, pid int) (Sample, error)
	Purge(ctx context.Context, pid int) (string, error)
	Save(pid int, samples []Sample) (string, error)
	// Stacks samples a process until EndProfile; pid 0 ends all.
	Stacks(ctx context.Context, pid int) (Stacks, error)
	EndProfile(pid int) error
	Now() time.Time
}

// Live reads this machine.
type Live struct {
	Proc procfs.FS
	PIDs []int  // only these in the list; all when empty
	Dir  string // where samples are saved
	// Profiler is needed for Stacks.
	Profiler *Profiler
}

// Now is the time.
func (l Live) Now() time.Time { return time.Now() }

// List reads the processes.
func (l Live) List(ctx context.Context) (List, error) {
	list, err := Read(ctx, l.Proc, l.PIDs)
	if err == nil && len(l.PIDs) > 0 && len(list.Processes) == 0 && len(list.Unreadable) > 0 {
		err = errors.New(list.Unreadable[0].Reason)
	}
	return list, err
}

// Sample reads one process.
func (l Live) Sample(_ context.Context, pid int) (Sample, error) {
	s := Sample{Taken: time.Now(), Pressure: pressure(l.Proc)}
	process, err := One(l.Proc, pid)
	if err != nil {
		return s, l.Proc.Explain(pid, err)
	}
	s.Command, s.Allocator = process.Command, process.Allocator
	st, err := l.Proc.Stat(pid)
	if err != nil {
		return s, l.Proc.Explain(pid, err)
	}
	s.Faults, s.CPU, s.Threads = st.MinorFaults+st.MajorFaults, st.CPUSeconds(), st.Threads
	regions, err := procfs.Footprint(l.Proc, pid)
	if err != nil {
		return s, l.Proc.Explain(pid, err)
	}
	s.RSS = procfs.TotalRSS(regions)
	sum := procfs.SumByKind(regions)
	for _, kind := range procfs.MemoryKinds() {
		s.Kinds = append(s.Kinds, Part{kind.String(), sum[kind]})
	}
	if s.Allocator.Name == inspect.Granary {
		target, err := inspect.Open(pid)
		if err != nil {
			return s, err
		}
		defer target.Close()
		s.Heap, err = target.Snapshot()
		return s, err
	}
	return s, nil
}

// pressure is the share of the last ten seconds in which some task waited for memory.
func pressure(proc procfs.FS) float64 {
	data, err := os.ReadFile(proc.Root + "/pressure/memory")
	if err != nil {
		return 0 // kernels may be built without it
	}
	var percent float64
	if _, err := fmt.Sscanf(string(data), "some avg10=%f", &percent); err != nil {
		return 0
	}
	return percent
}
