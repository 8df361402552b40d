package measure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// A Workload describes the work of a session: the allocators, the programs, and the function that runs one
// program once.
type Workload struct {
	Allocators []allocators.Allocator
	Subjects   []string // the subjects of a round, one after another; nil is one without a name
	Parts      int      // how often Work ticks
	Work       Work
	Remove     func() // removes the prepared data; may be nil
}

// A Session runs a Workload under each allocator, round by round, and keeps the finished rounds.
// Rounds are interleaved, so that a slow minute of the machine affects every allocator.
type Session struct {
	workload Workload
	env      cli.Env
	options  Options
	goal     report.Goal
	results  *result.Results
	failed   Out
}

// Open reads the results already in the folder of --out; new rounds are added to them. The caller must
// close the session.
func Open(env cli.Env, options Options, fresh *result.Results, workload Workload) (*Session, error) {
	goal, err := report.Find(options.Goal)
	if err != nil {
		return nil, cli.Usagef("--goal: %w", err)
	}
	x := &Session{workload: workload, env: env, options: options, goal: goal, results: fresh, failed: Out{}}
	if options.Out != "" {
		if x.results, err = result.Extend(options.Out, fresh); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Close removes the prepared data.
func (x *Session) Close() {
	if x.workload.Remove != nil {
		x.workload.Remove()
	}
}

// Results returns all finished rounds, including those of earlier calls.
func (x *Session) Results() *result.Results { return x.results }

// Steps returns the number of steps in a round.
func (x *Session) Steps() int { return len(x.workload.Allocators) * max(1, len(x.workload.Subjects)) }

// plan is the plan of the session without the number of rounds.
func (x *Session) plan() Plan {
	p := Plan{
		Allocators: x.workload.Allocators, Subjects: x.workload.Subjects, First: x.results.Rounds, Parts: x.workload.Parts,
		Now: time.Now, Out: x.failed, Work: x.workload.Work,
	}
	if x.options.Out != "" { // a run that is killed keeps its finished rounds
		p.Finished = func() { _ = x.results.WriteJSON(filepath.Join(x.options.Out, result.File)) } // the last write reports the error
	}
	return p
}

// Measure adds rounds.
func (x *Session) Measure(ctx context.Context, pass Pass) error {
	return Run(ctx, x.plan().With(pass), x.results)
}

// Run adds the number of rounds on the command line within a budget, shows progress, and writes the
// reports of the finished rounds, even after an error. A budget of 0 is no limit.
func (x *Session) Run(ctx context.Context, budget time.Duration) error {
	pass := Pass{Rounds: x.options.Rounds, Budget: budget, Limit: budget} // a hung subject must not prolong a bounded run
	progress := term.NewProgress(x.env.Stderr, time.Now, x.plan().With(pass).Total())
	pass.Progress = progress
	err := x.Measure(ctx, pass)
	progress.Close()
	return x.publish(err)
}

func (x *Session) publish(err error) error {
	report.Print(x.env.Stdout, x.results, x.goal)
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
	return report.WriteFolder(x.options.Out, x.results, x.goal, report.Markdown(x.results, x.goal))
}
