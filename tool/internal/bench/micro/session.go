package micro

import (
	"context"
	"path/filepath"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/bench/archive"
	"granary/tool/internal/bench/plan"
	"granary/tool/internal/bench/run"
	"granary/tool/internal/cli"
	"granary/tool/internal/procfs"
	"granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// A Session is the programs and the allocators, ready to be measured in as many passes as are wanted.
type Session struct {
	env        cli.Env
	options    options
	goal       advice.Goal
	bench      workbench
	contenders []allocators.Contender
	results    *bench.Results
	out        plan.Out
}

// Open reads a command line as `granary bench micro` does, and takes up the results that the folder of
// --out holds.
func Open(ctx context.Context, env cli.Env, args []string) (*Session, error) {
	var o options
	fs := pflag.NewFlagSet("micro", pflag.ContinueOnError)
	o.declare(fs)
	if err := fs.Parse(args); err != nil {
		return nil, cli.Usagef("micro: %w", err)
	}
	return o.open(ctx, env)
}

func (o *options) open(ctx context.Context, env cli.Env) (*Session, error) {
	if o.suite == "" {
		o.suite = beside(env.Exe, "bench/suites/micro.toml")
	}
	if o.programs == "" {
		o.programs = beside(env.Exe, "build/bench")
	}
	if err := o.Check(Rounds); err != nil {
		return nil, err
	}
	suite, err := ReadSuite(o.suite)
	if err == nil {
		suite, err = suite.Only(o.only)
	}
	if err != nil {
		return nil, err
	}
	if err := suite.built(o.programs); err != nil {
		return nil, err
	}
	goal, err := advice.Find(o.Goal)
	if err != nil {
		return nil, cli.Usagef("--goal: %w", err)
	}
	contenders, notes, err := o.Select(env)
	if err == nil {
		err = run.Adopt()
	}
	if err != nil {
		return nil, err
	}
	x := &Session{env: env, options: *o, goal: goal, out: plan.Out{}}
	x.bench = workbench{suite: suite, dir: o.programs, quick: o.Quick, proc: procfs.Live(), environ: env.Environ}
	x.results = bench.NewResults(env, "micro", map[string]any{"suite": suite.Names(), "quick": o.Quick}, nil, suite.Rows())
	x.results.Notes = notes
	return x, x.choose(ctx, contenders)
}

// choose keeps the contenders that take effect.
func (x *Session) choose(ctx context.Context, contenders []allocators.Contender) (err error) {
	for _, c := range contenders {
		if err := x.bench.effective(ctx, c); err != nil {
			x.results.Failures = append(x.results.Failures, bench.Failure{Contender: c.Name, Reason: err.Error()})
			continue
		}
		x.contenders = append(x.contenders, c)
	}
	x.results.Contenders = x.contenders
	if x.options.Out != "" {
		x.results, err = archive.Extend(x.options.Out, x.results)
	}
	return err
}

// Close has nothing to remove.
func (x *Session) Close() {}

// Results are all rounds so far, those of earlier calls included.
func (x *Session) Results() *bench.Results { return x.results }

// Steps is how many a round has.
func (x *Session) Steps() int { return len(x.contenders) * len(x.bench.suite.Programs) }

// plan is everything about the measuring but how much of it.
func (x *Session) plan() plan.Plan {
	p := plan.Plan{
		Contenders: x.contenders, Subjects: x.bench.suite.Names(), First: x.results.Rounds, Parts: 1, Now: time.Now, Out: x.out,
		Work: func(ctx context.Context, step plan.Step, tick func(string)) (bench.Sample, error) {
			sample, err := x.bench.measure(ctx, step.Subject, step.Contender)
			if err == nil {
				tick("")
			}
			return sample, err
		},
	}
	if x.options.Out != "" { // a run that is killed keeps its finished rounds
		p.Finished = func() { _ = x.results.WriteJSON(filepath.Join(x.options.Out, archive.File)) } // told at the end, if it still fails
	}
	return p
}

// Measure adds rounds.
func (x *Session) Measure(ctx context.Context, pass plan.Pass) error {
	return plan.Run(ctx, x.plan().With(pass), x.results)
}

// all measures as many rounds as the command line asks for, and shows progress.
func (x *Session) all(ctx context.Context) error {
	pass := plan.Pass{Rounds: x.options.Rounds}
	progress := term.NewProgress(x.env.Stderr, time.Now, x.plan().With(pass).Total())
	defer progress.Close()
	pass.Progress = progress
	return x.Measure(ctx, pass)
}

// Archive writes results and reports into the folder of --out.
func (x *Session) Archive() error {
	if len(x.results.Observations) == 0 {
		return nil
	}
	return archive.Write(x.options.Out, x.results, x.goal, archive.Markdown(x.results, x.goal))
}
