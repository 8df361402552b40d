package inspect

import (
	"regexp"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// recheck is the interval after which a process with another allocator is inspected again: it may have
// loaded Granary. A process younger than that, or with a new name, is inspected each time, because it may be
// between fork and exec, or before the loader has mapped the library.
const recheck = 30 * time.Second

// A Discovery finds the processes that run Granary. It remembers the processes that do not, so that a
// search inspects only new processes, and keeps the opened heaps of those that do.
type Discovery struct {
	proc procfs.FS
	open Opener
	now  func() time.Time
	seen map[int]*Found

	// Commands selects processes by their names; nil for all.
	Commands *regexp.Regexp
}

// Opener prepares to read the heap of a process.
type Opener func(pid int) (Heap, error)

// A Heap is one that can be read again and again (Target).
type Heap interface {
	Snapshot() (*Snapshot, error)
	Unchanged() bool
	Address() uint64
	Close() error
}

// OpenLive is the Opener of live processes.
func OpenLive(pid int) (Heap, error) {
	target, err := Open(pid)
	if err != nil {
		return nil, err
	}
	return target, nil
}

// A Found is a process and whether it runs Granary.
type Found struct {
	PID     int
	Command string
	Ticks   uint64 // when it started, in ticks since boot: tells a process from an earlier one of the same PID

	checked time.Time
	first   time.Time // when it was found
	granary bool
	heap    Heap // nil if it has to be opened
}

// NewDiscovery returns a Discovery for the processes of proc.
func NewDiscovery(proc procfs.FS, open Opener, now func() time.Time) *Discovery {
	return &Discovery{proc: proc, open: open, now: now, seen: map[int]*Found{}}
}

// Find returns the processes that run Granary and may be read, in the order of their PIDs, at most limit; more says
// how many were left out. It inspects only the processes pids, unless there are none.
func (d *Discovery) Find(pids []int, limit int) (found []*Found, more int, err error) {
	all := pids
	if len(pids) == 0 {
		if all, err = d.proc.PIDs(); err != nil {
			return nil, 0, err
		}
	}
	next := make(map[int]*Found, len(all))
	for _, pid := range all {
		f := d.check(pid)
		if f == nil {
			continue
		}
		next[pid] = f
		switch {
		case !f.granary:
		case len(found) < limit:
			found = append(found, f)
		default:
			more++
		}
	}
	for pid, f := range d.seen {
		if next[pid] != f {
			f.close()
		}
	}
	d.seen = next
	return found, more, nil
}

// check returns what is known of a process, which it inspects if necessary; nil for one that ended or is not selected.
func (d *Discovery) check(pid int) *Found {
	stat, err := d.proc.Stat(pid)
	if err != nil || stat.Ended() || d.Commands != nil && !d.Commands.MatchString(stat.Command) {
		return nil
	}
	now := d.now()
	f := d.seen[pid]
	known := f != nil && f.Ticks == stat.StartTicks
	if known && f.Command == stat.Command && (f.granary || now.Sub(f.checked) < recheck && now.Sub(f.first) > recheck) {
		return f
	}
	if !known {
		f = &Found{PID: pid, Ticks: stat.StartTicks, first: now}
	}
	f.close()
	f.Command, f.checked = stat.Command, now
	f.heap, err = d.open(pid)
	f.granary = err == nil && !ShareMemory(pid, stat.Parent)
	return f
}

// Read reads the figures of a process, through the heap that was kept if that is still valid, and says where its
// library is.
func (d *Discovery) Read(f *Found) (s *Snapshot, library uint64, err error) {
	if f.heap == nil || !f.heap.Unchanged() {
		f.close()
		if f.heap, err = d.open(f.PID); err != nil {
			f.granary = false
			return nil, 0, err
		}
	}
	if s, err = f.heap.Snapshot(); err != nil {
		return nil, 0, err
	}
	return s, f.heap.Address(), nil
}

func (f *Found) close() {
	if f.heap != nil {
		_ = f.heap.Close() // of memory that was only read
	}
	f.heap = nil
}
