package scenario

import (
	"context"

	"granary/tool/internal/bench"
	"granary/tool/internal/bench/cpushare"
)

// MetricShare is how much of the server's CPU time lies in the allocator's own code.
const MetricShare = "CPU share of the allocator"

// ShareRow is the row that ShareOf fills.
func ShareRow() bench.Row { return LowerRow(MetricShare, "%") }

// samplesPerSecond of CPU time; no multiple of what timers of servers are set to.
const samplesPerSecond = 499

// fewestSamples is below what a share says nothing.
const fewestSamples = 20

// ShareOf samples the server while work runs, and records the allocator's share of its CPU time; of a Tree that of
// all its processes. Where the kernel gives no samples, or too few, the row stays empty.
func (v *Visit) ShareOf(work func() error) error {
	code := &codes{visit: v, known: map[int][]cpushare.Range{}}
	code.learn()
	sampler, err := cpushare.Start(v.proc, v.Server.pids(), samplesPerSecond)
	if err != nil { // not allowed, or the server is gone: then the work says why
		return work()
	}
	err = work()
	code.learn()
	share := sampler.Stop(code.of)
	if err == nil && len(code.known) > 0 && share.Samples >= fewestSamples {
		v.Set(MetricShare, share.Allocator*100)
	}
	return err
}

// WatchShare is Watch and ShareOf in one.
func (v *Visit) WatchShare(ctx context.Context, work func(context.Context, *Load) error) (Between, error) {
	return v.Watch(ctx, func(ctx context.Context, load *Load) error {
		return v.ShareOf(func() error { return work(ctx, load) })
	})
}

// codes are where the allocator's code lies in the server's processes.
type codes struct {
	visit *Visit
	known map[int][]cpushare.Range
	first int // the process that the others were forked from, most likely
}

// learn looks at the processes that are there now.
func (c *codes) learn() {
	for _, pid := range c.visit.Server.pids() {
		if c.known[pid] != nil {
			continue
		}
		if ranges, err := cpushare.CodeOf(c.visit.proc, pid, c.visit.Contender); err == nil { // it may have ended
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
