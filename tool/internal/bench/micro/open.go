package micro

import (
	"context"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"

	"github.com/spf13/pflag"
)

// Open reads a command line of `granary bench micro` and the results already in the folder of --out.
func Open(ctx context.Context, env cli.Env, args []string) (*measure.Session, error) {
	var o options
	fs := pflag.NewFlagSet("micro", pflag.ContinueOnError)
	o.declare(fs)
	if err := fs.Parse(args); err != nil {
		return nil, cli.Usagef("micro: %w", err)
	}
	return o.open(ctx, env)
}

func (o *options) open(ctx context.Context, env cli.Env) (*measure.Session, error) {
	suite, err := o.suiteOf(env)
	if err != nil {
		return nil, err
	}
	return OpenSuite(ctx, env, o.Options, Spec{
		Scenario: "micro", Suite: suite, Programs: o.programs,
		Settings: map[string]any{"suite": suite.Names(), "quick": o.Quick},
	})
}

// A Spec describes a session of small programs.
type Spec struct {
	Scenario string
	Suite    Suite
	Programs string // the folder of the built programs; empty: that of the source tree or of the package
	Settings map[string]any
	Notes    []string // remarks about all results
}

// OpenSuite opens a session that runs the programs of a suite under each allocator. The options must have been checked.
func OpenSuite(ctx context.Context, env cli.Env, o measure.Options, spec Spec) (*measure.Session, error) {
	if spec.Programs == "" {
		spec.Programs = preload.Programs(env.Exe)
	}
	if err := spec.Suite.built(spec.Programs); err != nil {
		return nil, err
	}
	selected, notes, err := o.Select(env)
	if err == nil {
		err = measure.Adopt()
	}
	if err != nil {
		return nil, err
	}
	w := workbench{suite: spec.Suite, dir: spec.Programs, quick: o.Quick, proc: procfs.Live(), environ: env.Environ}
	results := measure.NewResults(env, spec.Scenario, spec.Settings, nil, spec.Suite.Rows())
	w.warmer = newWarmer(results.Machine)
	results.Notes = append(notes, spec.Notes...)
	results.Allocators, results.Failures = w.effectiveOf(ctx, selected)
	return measure.Open(env, o, results, measure.Workload{
		Allocators: results.Allocators, Subjects: spec.Suite.Names(), Parts: 1,
		Work: func(ctx context.Context, step measure.Step, tick func(string)) (result.Sample, error) {
			sample, err := w.measure(ctx, step.Subject, step.Allocator)
			if err == nil {
				tick("")
			}
			return sample, err
		},
	})
}

// suiteOf reads the suite that the options name.
func (o *options) suiteOf(env cli.Env) (Suite, error) {
	if o.suite == "" {
		o.suite = preload.Suite(env.Exe, "micro.toml")
	}
	if err := o.Check(Rounds); err != nil {
		return Suite{}, err
	}
	suite, err := ReadSuite(o.suite)
	if err == nil {
		suite, err = suite.Only(o.only)
	}
	return suite, err
}

// effectiveOf are the allocators that take effect, and why the others do not.
func (w workbench) effectiveOf(ctx context.Context, selected []allocators.Allocator) (list []allocators.Allocator, failures []result.Failure) {
	for _, c := range selected {
		if err := w.effective(ctx, c); err != nil {
			failures = append(failures, result.Failure{Allocator: c.Name, Reason: err.Error()})
			continue
		}
		list = append(list, c)
	}
	return list, failures
}
