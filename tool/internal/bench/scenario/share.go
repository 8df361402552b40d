package scenario

import (
	"errors"

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

// ShareOf samples the server while work runs, and records the allocator's share of its CPU time. Where the
// kernel gives no samples, or too few, the row stays empty.
func (v *Visit) ShareOf(work func() error) error {
	sampler, err := cpushare.Start(v.proc, v.Server.PID(), samplesPerSecond)
	if errors.Is(err, cpushare.ErrNotAllowed) {
		return work()
	}
	if err != nil {
		return err
	}
	err = work()
	code, codeErr := cpushare.CodeOf(v.proc, v.Server.PID(), v.Contender)
	share := sampler.Stop(code)
	if err == nil && codeErr == nil && share.Samples >= fewestSamples {
		v.Set(MetricShare, share.Allocator*100)
	}
	return err
}
