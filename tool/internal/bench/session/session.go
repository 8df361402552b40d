// Package session measures allocators in passes, keeps the finished rounds and publishes what came of it, whether
// services or programs are measured: that is a Way.
package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/bench/archive"
	"granary/tool/internal/bench/plan"
	"granary/tool/internal/cli"
	"granary/tool/internal/term"
)

// A Way is what differs: who is measured at what, and how.
type Way struct {
	Contenders []allocators.Contender
	Subjects   []string // what a round measures, one after another; nil is one without a name
	Parts      int      // how often Work ticks
	Work       plan.Work
	Remove     func() // removes what was prepared; may be nil
}

// A Session is a Way with the results so far.
type Session struct {
	way     Way
	env     cli.Env
	options bench.Options
	goal    advice.Goal
	results *bench.Results
	failed  plan.Out
}

// Open takes up the results that the folder of --out holds, to which fresh ones are added. The session must be closed.
func Open(env cli.Env, options bench.Options, fresh *bench.Results, way Way) (*Session, error) {
	goal, err := advice.Find(options.Goal)
	if err != nil {
		return nil, cli.Usagef("--goal: %w", err)
	}
	x := &Session{way: way, env: env, options: options, goal: goal, results: fresh, failed: plan.Out{}}
	if options.Out != "" {
		if x.results, err = archive.Extend(options.Out, fresh); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Close removes what was prepared.
func (x *Session) Close() {
	if x.way.Remove != nil {
		x.way.Remove()
	}
}

// Results are all rounds so far, those of earlier calls included.
func (x *Session) Results() *bench.Results { return x.results }

// Steps is how many a round has.
func (x *Session) Steps() int { return len(x.way.Contenders) * max(1, len(x.way.Subjects)) }

// plan is everything about the measuring but how much of it.
func (x *Session) plan() plan.Plan {
	p := plan.Plan{
		Contenders: x.way.Contenders, Subjects: x.way.Subjects, First: x.results.Rounds, Parts: x.way.Parts,
		Now: time.Now, Out: x.failed, Work: x.way.Work,
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

// Run adds as many rounds as the command line asks for within a budget, shows progress, and publishes what there is,
// also after an error. Without a budget it is 0.
func (x *Session) Run(ctx context.Context, budget time.Duration) error {
	pass := plan.Pass{Rounds: x.options.Rounds, Budget: budget, Limit: budget} // what hangs must not take a bounded run with it
	progress := term.NewProgress(x.env.Stderr, time.Now, x.plan().With(pass).Total())
	pass.Progress = progress
	err := x.Measure(ctx, pass)
	progress.Close()
	return x.publish(err)
}

func (x *Session) publish(err error) error {
	archive.Print(x.env.Stdout, x.results, x.goal)
	if x.options.JSON != "" {
		err = errors.Join(err, x.results.WriteJSON(x.options.JSON))
	}
	if x.options.Out == "" || len(x.results.Observations) == 0 {
		return err
	}
	if archiveErr := x.Archive(); archiveErr != nil {
		return errors.Join(err, archiveErr)
	}
	fmt.Fprintf(x.env.Stdout, "The report is %s\n", filepath.Join(x.options.Out, "report.html"))
	return err
}

// Archive writes results and reports into the folder of --out.
func (x *Session) Archive() error {
	if len(x.results.Observations) == 0 {
		return nil
	}
	return archive.Write(x.options.Out, x.results, x.goal, archive.Markdown(x.results, x.goal))
}
