package runner

import (
	"context"
	"fmt"
	"os"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
)

// Open finds the programs that the scenario needs, reads the results already in the folder of --out, and
// prepares the data that all visits share.
func (s Scenario) Open(ctx context.Context, env cli.Env, in *Invocation) (*measure.Session, error) {
	if err := in.check(s); err != nil {
		return nil, err
	}
	return s.open(ctx, env, *in)
}

func (s Scenario) open(ctx context.Context, env cli.Env, in Invocation) (*measure.Session, error) {
	paths, err := find(s.Needs)
	if err != nil {
		return nil, err
	}
	selected, notes, err := in.Select(env)
	if err == nil {
		err = measure.Adopt()
	}
	if err != nil {
		return nil, err
	}
	settings := map[string]any{}
	for name, value := range in.values {
		settings[name] = value
	}
	results := measure.NewResults(env, s.Name, settings, selected, s.Rows(in.values))
	results.Notes = notes
	shared := &Shared{Values: in.values, Paths: paths, Environ: env.Environ}
	if in.cpu {
		if err := profile.MayRecord(procfs.Live()); err != nil {
			return nil, err
		}
		shared.CPU = &cpuProfiles{dir: in.Out, finder: symbol.NewFinder(env.Getenv)}
		shared.CPU.finder.FunctionsOnly = true
	}
	x, err := measure.Open(env, in.Options, results, measure.Workload{
		Allocators: selected, Parts: len(s.Phases(in.values)), Remove: shared.remove,
		Work: func(ctx context.Context, step measure.Step, tick func(string)) (result.Sample, error) {
			return s.measure(ctx, shared, procfs.Live(), step.Allocator, step.Round, tick)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, env, shared); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// prepare makes and fills the folder that all visits share.
func (s Scenario) prepare(ctx context.Context, env cli.Env, shared *Shared) (err error) {
	if shared.Dir, err = os.MkdirTemp("", "granary-"+s.Name+"-shared-"); err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	if err := os.Chmod(shared.Dir, 0o755); err != nil { // servers that run as others read it
		return fmt.Errorf("open the temporary folder: %w", err)
	}
	if s.Prepare == nil {
		return nil
	}
	fmt.Fprintf(env.Stderr, "preparing %s\n", s.Name)
	if err := s.Prepare(ctx, shared); err != nil {
		return fmt.Errorf("prepare %s: %w", s.Name, err)
	}
	return nil
}

func (s *Shared) remove() {
	if s.Dir != "" {
		os.RemoveAll(s.Dir)
	}
}
