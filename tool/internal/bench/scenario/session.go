package scenario

import (
	"context"
	"fmt"
	"os"
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
)

// A Session is a scenario that is ready to be measured: what all visits share is prepared once, then it
// is measured in as many passes as are wanted.
type Session struct {
	scenario   Scenario
	env        cli.Env
	in         Invocation
	goal       advice.Goal
	contenders []allocators.Contender
	shared     *Shared
	results    *bench.Results
	out        plan.Out
}

// Open finds what the scenario needs, takes up the results that the folder of --out holds, and prepares.
// The session must be closed.
func (s Scenario) Open(ctx context.Context, env cli.Env, in *Invocation) (*Session, error) {
	if err := in.check(s); err != nil {
		return nil, err
	}
	return s.open(ctx, env, *in)
}

func (s Scenario) open(ctx context.Context, env cli.Env, in Invocation) (*Session, error) {
	paths, err := find(s.Needs)
	if err != nil {
		return nil, err
	}
	contenders, notes, err := in.Select(env)
	if err == nil {
		err = run.Adopt()
	}
	if err != nil {
		return nil, err
	}
	settings := map[string]any{}
	for name, value := range in.values {
		settings[name] = value
	}
	goal, err := advice.Find(in.Goal)
	if err != nil {
		return nil, cli.Usagef("--goal: %w", err)
	}
	results := bench.NewResults(env, s.Name, settings, contenders, s.Rows(in.values))
	results.Notes = notes
	if in.Out != "" {
		if results, err = archive.Extend(in.Out, results); err != nil {
			return nil, err
		}
	}
	x := &Session{scenario: s, env: env, in: in, goal: goal, contenders: contenders, results: results, out: plan.Out{}}
	if x.shared, err = s.prepare(ctx, env, in, paths); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// prepare makes the folder that all visits share. It is returned also with an error, so that it can be removed.
func (s Scenario) prepare(ctx context.Context, env cli.Env, in Invocation, paths map[string]string) (*Shared, error) {
	dir, err := os.MkdirTemp("", "granary-"+s.Name+"-shared-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	shared := &Shared{Dir: dir, Values: in.values, Paths: paths, Environ: env.Environ}
	if err := os.Chmod(dir, 0o755); err != nil { // servers that run as others read it
		return shared, fmt.Errorf("open the temporary folder: %w", err)
	}
	if s.Prepare != nil {
		fmt.Fprintf(env.Stderr, "preparing %s\n", s.Name)
		if err := s.Prepare(ctx, shared); err != nil {
			return shared, fmt.Errorf("prepare %s: %w", s.Name, err)
		}
	}
	return shared, nil
}

// Close removes what was prepared.
func (x *Session) Close() {
	if x.shared != nil {
		os.RemoveAll(x.shared.Dir)
	}
}

// Results are all rounds so far, those of earlier calls included.
func (x *Session) Results() *bench.Results { return x.results }

// Steps is how many a round has.
func (x *Session) Steps() int { return len(x.contenders) }

// plan is everything about the measuring but how much of it.
func (x *Session) plan() plan.Plan {
	p := plan.Plan{
		Contenders: x.contenders, First: x.results.Rounds, Parts: len(x.scenario.Phases(x.in.values)), Now: time.Now, Out: x.out,
		Work: func(ctx context.Context, step plan.Step, tick func(string)) (bench.Sample, error) {
			return x.scenario.measure(ctx, x.shared, procfs.Live(), step.Contender, step.Round, tick)
		},
	}
	if x.in.Out != "" { // a run that is killed keeps its finished rounds
		p.Finished = func() { _ = x.results.WriteJSON(filepath.Join(x.in.Out, archive.File)) } // told at the end, if it still fails
	}
	return p
}

// Measure adds rounds.
func (x *Session) Measure(ctx context.Context, pass plan.Pass) error {
	return plan.Run(ctx, x.plan().With(pass), x.results)
}

// Archive writes results and reports into the folder of --out.
func (x *Session) Archive() error {
	if len(x.results.Observations) == 0 {
		return nil
	}
	return archive.Write(x.in.Out, x.results, x.goal, archive.Markdown(x.results, x.goal))
}
