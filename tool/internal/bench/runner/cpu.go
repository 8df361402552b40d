package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	pprof "github.com/google/pprof/profile"
)

// cpuProfiles are where the CPU profiles of all visits are kept.
type cpuProfiles struct {
	dir    string // of the results
	finder *symbol.Finder
}

// record begins to sample the server's CPU time, if that is wanted.
func (v *Visit) record(ctx context.Context) (err error) {
	if v.CPU == nil || v.Server.process.Ended() {
		return nil
	}
	v.endRecord()
	v.recording, err = profile.Record(v.proc, v.Server.PID(), v.Allocator)
	if err != nil && v.Server.process.Ended() { // it was too short to be sampled
		v.recording, err = nil, nil
	}
	return err
}

// endRecord ends the sampling while the server still runs, so that its mappings can be read.
func (v *Visit) endRecord() {
	if v.recording == nil {
		return
	}
	p := v.recording.Stop(context.Background(), v.CPU.finder) // an interrupted visit must end its samples, too
	p.Comments = []string{result.CPURun + time.Now().Format(time.RFC3339Nano)}
	v.profiles, v.recording = append(v.profiles, p), nil
}

// keep adds the profiles of a visit to the allocator's file.
func (c *cpuProfiles) keep(allocator allocators.Allocator, profiles []*pprof.Profile) error {
	if c == nil || len(profiles) == 0 {
		return nil
	}
	all, err := pprof.Merge(profiles)
	if err != nil {
		return fmt.Errorf("merge the CPU profiles of a run: %w", err)
	}
	all.Comments = all.Comments[:1] // they are of one run
	return result.AddCPU(c.dir, allocator.Name, all)
}
