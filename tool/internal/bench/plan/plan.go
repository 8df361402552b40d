// Package plan takes contenders through rounds in turn, so that what slows the machine for a while
// slows all of them, and keeps what is finished when it is stopped.
package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
)

// A Step is one contender in one round.
type Step struct {
	Round     int
	Contender allocators.Contender
}

// Order is the sequence of a round: rotated by one each round, so that nobody always goes first.
func Order(contenders []allocators.Contender, round int) []Step {
	steps := make([]Step, len(contenders))
	for i := range contenders {
		steps[i] = Step{round, contenders[(i+round)%len(contenders)]}
	}
	return steps
}

// Progress is told what happens.
type Progress interface {
	// Step announces a contender's run.
	Step(label string)
	// Tick reports one of the parts that a run consists of as done.
	Tick(label string)
	// Drop says that parts announced at the start will not come.
	Drop(parts int)
}

// Work measures one step. It calls tick after each of its parts.
type Work func(ctx context.Context, step Step, tick func(label string)) (bench.Sample, error)

// Plan is what to do.
type Plan struct {
	Contenders []allocators.Contender
	Rounds     int
	Parts      int           // how often Work ticks
	Budget     time.Duration // no round starts that would end after it; 0 is no bound
	Work       Work
	Progress   Progress
	Now        func() time.Time
}

// Run fills results round by round. A contender that fails is out of the later rounds; the others go
// on. When ctx ends, the finished rounds stay and the started one is dropped.
func Run(ctx context.Context, p Plan, results *bench.Results) error {
	start := p.Now()
	defer func() { results.Seconds = p.Now().Sub(start).Seconds() }()
	live := p.Contenders
	var longest time.Duration
	for round := range p.Rounds {
		began := p.Now()
		if p.Budget > 0 && round > 0 && began.Sub(start)+longest > p.Budget {
			results.Notes = append(results.Notes, fmt.Sprintf(
				"stopped after %d of %d rounds, as another would not have ended within %v", round, p.Rounds, p.Budget))
			break
		}
		done, failures, err := p.round(ctx, live, round)
		results.Failures = append(results.Failures, failures...)
		if err != nil {
			results.Notes = append(results.Notes, fmt.Sprintf("interrupted in round %d of %d; the finished rounds follow", round+1, p.Rounds))
			return err
		}
		for _, d := range done {
			results.Add(d.step.Contender.Name, round, d.sample)
		}
		results.Rounds = round + 1
		live = without(live, failures)
		longest = max(longest, p.Now().Sub(began))
	}
	if len(live) == 0 {
		return errors.New("no contender could be measured; the sentences above say why")
	}
	return nil
}

type measured struct {
	step   Step
	sample bench.Sample
}

func (p Plan) round(ctx context.Context, live []allocators.Contender, round int) (done []measured, failures []bench.Failure, err error) {
	for _, step := range Order(live, round) {
		p.Progress.Step(fmt.Sprintf("round %d/%d %s", round+1, p.Rounds, step.Contender.Name))
		ticks := 0
		sample, err := p.Work(ctx, step, func(label string) {
			ticks++
			p.Progress.Tick(step.Contender.Name + " " + label)
		})
		if ctx.Err() != nil {
			return done, failures, ctx.Err()
		}
		if err != nil {
			failures = append(failures, bench.Failure{Contender: step.Contender.Name, Round: round, Reason: err.Error()})
			p.Progress.Drop(p.Parts - ticks + p.Parts*(p.Rounds-round-1))
			continue
		}
		done = append(done, measured{step, sample})
	}
	return done, failures, nil
}

func without(live []allocators.Contender, failures []bench.Failure) []allocators.Contender {
	var out []allocators.Contender
	for _, c := range live {
		failed := false
		for _, f := range failures {
			failed = failed || f.Contender == c.Name
		}
		if !failed {
			out = append(out, c)
		}
	}
	return out
}
