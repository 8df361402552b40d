package exporter

import (
	"errors"
	"os"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// recheck is the interval after which a process with another allocator is inspected again: it may have
// called exec or loaded Granary.
const recheck = 30 * time.Second

// A Discovery finds the processes that run Granary. It remembers the processes that do not, so that a
// scrape inspects only new processes.
type Discovery struct {
	proc procfs.FS
	now  func() time.Time
	seen map[int]verdict
}

type verdict struct {
	started uint64 // ticks since boot: tells a process from an earlier one of the same PID
	at      time.Time
	granary bool
}

// NewDiscovery returns a Discovery for the processes of proc.
func NewDiscovery(proc procfs.FS, now func() time.Time) *Discovery {
	return &Discovery{proc: proc, now: now, seen: map[int]verdict{}}
}

// PIDs are the processes that run Granary and may be read, ascending, at most limit; more says how
// many were left out.
func (d *Discovery) PIDs(limit int) (pids []int, more int, err error) {
	all, err := d.proc.PIDs()
	if err != nil {
		return nil, 0, err
	}
	next := make(map[int]verdict, len(all))
	for _, pid := range all {
		v, ok := d.verdict(pid)
		if !ok {
			continue
		}
		next[pid] = v
		switch {
		case !v.granary:
		case len(pids) < limit:
			pids = append(pids, pid)
		default:
			more++
		}
	}
	d.seen = next
	return pids, more, nil
}

func (d *Discovery) verdict(pid int) (verdict, bool) {
	st, err := d.proc.Stat(pid)
	if err != nil {
		return verdict{}, false
	}
	now := d.now()
	if v, ok := d.seen[pid]; ok && v.started == st.StartTicks && (v.granary || now.Sub(v.at) < recheck) {
		return v, true
	}
	running, err := inspect.AllocatorOf(d.proc, pid)
	granary := err == nil && running.Name == inspect.Granary
	if errors.Is(err, os.ErrPermission) {
		granary = publishes(pid)
	}
	return verdict{started: st.StartTicks, at: now, granary: granary}, true
}

// publishes is true for a process that may not be read but writes its figures where they may
// (option stats_file).
func publishes(pid int) bool {
	target, err := inspect.Open(pid)
	if err != nil {
		return false
	}
	defer target.Close()
	return target.Published
}
