package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// workers read processes at the same time.
const workers = 2

// A Reading is the figures of all processes at one time.
type Reading struct {
	Taken     time.Time
	Took      time.Duration
	Processes []Process
	LeftOut   int    // run Granary, and were not read: too many of them, or too slow
	Errors    uint64 // since the start: processes that could not be read
}

// A Process is the figures of one process.
type Process struct {
	PID      int
	Command  string
	Started  time.Time
	RSS      uint64
	Snapshot *inspect.Snapshot // without options, caches and locks

	ticks, library uint64 // see lifetime
	err            error
	skipped        bool
}

// A reader reads all processes; one reading at a time.
type reader struct {
	config   Config
	proc     procfs.FS
	discover *inspect.Discovery
	boot     time.Time

	mu     sync.Mutex
	errors uint64
}

func newReader(config Config, proc procfs.FS, open inspect.Opener, now func() time.Time) *reader {
	r := &reader{config: config, proc: proc, discover: inspect.NewDiscovery(proc, open, now)}
	r.discover.Commands = config.Commands
	r.boot, _ = proc.BootTime() // without it, no process has a time of its start
	return r
}

// read reads every process. One that ends meanwhile is left out; the others are complete.
func (r *reader) read() Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Reading{Taken: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), r.config.Timeout)
	defer cancel()
	found, left := r.find()
	out.LeftOut = left
	for _, p := range r.readAll(ctx, found) {
		switch {
		case p.skipped:
			out.LeftOut++
		case p.err != nil && !harmless(p.err):
			r.errors++
		case p.err == nil:
			out.Processes = append(out.Processes, p)
		}
	}
	out.Errors, out.Took = r.errors, time.Since(out.Taken)
	return out
}

func (r *reader) find() (found []*inspect.Found, left int) {
	found, left, err := r.discover.Find(r.config.PIDs, r.config.MaxProcesses)
	if err != nil {
		r.errors++
	}
	return found, left
}

// readAll reads with a few workers; what is not begun when the time is up is skipped.
func (r *reader) readAll(ctx context.Context, found []*inspect.Found) []Process {
	processes := make([]Process, len(found))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(found); i += workers {
				processes[i] = Process{PID: found[i].PID, Command: found[i].Command, ticks: found[i].Ticks, skipped: ctx.Err() != nil}
				if !processes[i].skipped {
					processes[i].err = r.one(&processes[i], found[i])
				}
			}
		})
	}
	group.Wait()
	return processes
}

func (r *reader) one(p *Process, f *inspect.Found) (err error) {
	if p.RSS, err = r.proc.Resident(f.PID); err != nil {
		return err
	}
	if p.Snapshot, p.library, err = r.discover.Read(f); err != nil {
		return err
	}
	stat, err := r.proc.Stat(f.PID)
	if err != nil {
		return err
	}
	if stat.StartTicks != f.Ticks {
		return fmt.Errorf("process %d ended: %w", f.PID, inspect.ErrGone) // its PID has a new owner, whose figures these may be
	}
	if !r.boot.IsZero() {
		p.Started = procfs.StartedAt(r.boot, f.Ticks)
	}
	s := p.Snapshot
	s.Options, s.Caches, s.Locks = nil, nil, nil
	if !r.config.Classes {
		s.Classes = nil
	}
	return nil
}

// harmless is true for an error that says that there is nothing to read: the process ended, called exec, or has not
// allocated yet.
func harmless(err error) bool {
	return errors.Is(err, inspect.ErrGone) || errors.Is(err, inspect.ErrNotGranary) || errors.Is(err, inspect.ErrNotReady) || procfs.Gone(err)
}
