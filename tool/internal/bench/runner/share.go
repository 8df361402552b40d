package runner

import (
	"context"
	"errors"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
)

// MetricShare is the share of the server's CPU time that is spent in the allocator's code, in %.
const MetricShare = "CPU share of the allocator"

// ShareRow is the row that WatchShare fills.
func ShareRow() result.Row { return LowerRow(MetricShare, "%") }

// samplesPerSecond of CPU time; no multiple of what timers of servers are set to.
const samplesPerSecond = 499

// fewestSamples is the minimum number of samples for a share to be recorded.
const fewestSamples = 20

// stopsPerSecond where the kernel gives no samples: little enough that the server hardly feels it.
const stopsPerSecond = 100

// The remarks about shares that do not come from the kernel's samples.
const (
	noteStops = "the kernel gives this user no samples, so that the CPU share of the allocator was taken by stopping the server's running threads " +
		"for a moment up to 100 times a second; page faults in the allocator count as its own there"
	noteNoShare = "the CPU share of the allocator is empty, as the kernel gives this user neither samples nor the right to stop the server's threads; " +
		"run as root, or set kernel.perf_event_paranoid to 2"
)

// A sampler is one of package cpushare's.
type sampler interface {
	Stop(allocator func(pid int) []cpushare.Range) cpushare.Share
}

// startSampler starts the kernel's, else one that stops the server; nil where the server is gone, or neither is allowed.
func (v *Visit) startSampler() sampler {
	s, err := cpushare.Start(v.proc, v.Server.pids(), samplesPerSecond)
	if err == nil {
		return s
	}
	if !errors.Is(err, cpushare.ErrNotAllowed) {
		return nil
	}
	stops, err := cpushare.StartStops(v.proc, v.Server.pids, stopsPerSecond)
	if err != nil {
		v.sample.Note(noteNoShare)
		return nil
	}
	v.sample.Note(noteStops)
	return stops
}

// shareOf samples the server while work runs, and records the allocator's share of its CPU time; of a Tree that of
// all its processes. Where there are no samples, or too few, the row stays empty.
func (v *Visit) shareOf(work func() error) error {
	code := &codes{visit: v, known: map[int][]cpushare.Range{}}
	code.learn()
	sampler := v.startSampler()
	if sampler == nil { // if the server has ended, the error of work gives the reason
		return work()
	}
	err := work()
	code.learn()
	share := sampler.Stop(code.of)
	if err == nil && len(code.known) > 0 && share.Samples >= fewestSamples {
		v.Set(MetricShare, share.Allocator*100)
	}
	return err
}

// WatchShare is Watch, and also records the allocator's share of the server's CPU time.
func (v *Visit) WatchShare(ctx context.Context, work func(context.Context, *Load) error) (Between, error) {
	return v.Watch(ctx, func(ctx context.Context, load *Load) error {
		return v.shareOf(func() error { return work(ctx, load) })
	})
}

// codes are the address ranges of the allocator's code in the server's processes.
type codes struct {
	visit *Visit
	known map[int][]cpushare.Range
	first int // the process that the others were forked from, most likely
}

// learn reads the mappings of the processes that run at present.
func (c *codes) learn() {
	for _, pid := range c.visit.Server.pids() {
		if c.known[pid] != nil {
			continue
		}
		if ranges, err := cpushare.CodeOf(c.visit.proc, pid, c.visit.Allocator); err == nil { // it may have ended
			c.known[pid] = ranges
			if c.first == 0 {
				c.first = pid
			}
		}
	}
}

// of is the code in a process; one that came and went is taken for a fork of the first.
func (c *codes) of(pid int) []cpushare.Range {
	if ranges := c.known[pid]; ranges != nil {
		return ranges
	}
	return c.known[c.first]
}
