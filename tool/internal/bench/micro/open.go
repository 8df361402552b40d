package micro

import (
	"context"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/session"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"

	"github.com/spf13/pflag"
)

// Open reads a command line of `granary bench micro` and the results already in the folder of --out.
func Open(ctx context.Context, env cli.Env, args []string) (*session.Session, error) {
	var o options
	fs := pflag.NewFlagSet("micro", pflag.ContinueOnError)
	o.declare(fs)
	if err := fs.Parse(args); err != nil {
		return nil, cli.Usagef("micro: %w", err)
	}
	return o.open(ctx, env)
}

func (o *options) open(ctx context.Context, env cli.Env) (*session.Session, error) {
	suite, err := o.programsOf(env)
	if err != nil {
		return nil, err
	}
	contenders, notes, err := o.Select(env)
	if err == nil {
		err = measure.Adopt()
	}
	if err != nil {
		return nil, err
	}
	w := workbench{suite: suite, dir: o.programs, quick: o.Quick, proc: procfs.Live(), environ: env.Environ}
	results := session.NewResults(env, "micro", map[string]any{"suite": suite.Names(), "quick": o.Quick}, nil, suite.Rows())
	w.warmer = newWarmer(results.Machine)
	results.Notes = notes
	results.Contenders, results.Failures = w.effectiveOf(ctx, contenders)
	return session.Open(env, o.Options, results, session.Workload{
		Contenders: results.Contenders, Subjects: suite.Names(), Parts: 1,
		Work: func(ctx context.Context, step session.Step, tick func(string)) (result.Sample, error) {
			sample, err := w.measure(ctx, step.Subject, step.Contender)
			if err == nil {
				tick("")
			}
			return sample, err
		},
	})
}

// programsOf reads the suite that the options name.
func (o *options) programsOf(env cli.Env) (Suite, error) {
	if o.suite == "" {
		o.suite = beside(env.Exe, "bench/suites/micro.toml")
	}
	if o.programs == "" {
		o.programs = beside(env.Exe, "build/bench")
	}
	if err := o.Check(Rounds); err != nil {
		return Suite{}, err
	}
	suite, err := ReadSuite(o.suite)
	if err == nil {
		suite, err = suite.Only(o.only)
	}
	if err == nil {
		err = suite.built(o.programs)
	}
	return suite, err
}

// effectiveOf are the contenders that take effect, and why the others do not.
func (w workbench) effectiveOf(ctx context.Context, contenders []allocators.Contender) (list []allocators.Contender, failures []result.Failure) {
	for _, c := range contenders {
		if err := w.effective(ctx, c); err != nil {
			failures = append(failures, result.Failure{Contender: c.Name, Reason: err.Error()})
			continue
		}
		list = append(list, c)
	}
	return list, failures
}
