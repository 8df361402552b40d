package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// A Step is one allocator with one subject in one round.
type Step struct {
	Round     int
	Subject   string
	Allocator allocators.Allocator
}

// Order returns the sequence of a round. Over as many rounds as there are allocators, or twice as many if
// their number is odd, each allocator takes each place and follows each other allocator equally often. A
// run finds the caches and the machine's free memory as the previous run left them, and this order
// balances that effect (Williams, "Experimental designs balanced for the estimation of residual effects of
// treatments", 1949).
func Order(selected []allocators.Allocator, round int) []allocators.Allocator {
	n := len(selected)
	order := make([]allocators.Allocator, n)
	for place := range n {
		next := place / 2 // 0, n-1, 1, n-2, 2 ...: no two neighbours are equally far apart
		if place%2 == 1 {
			next = n - 1 - place/2
		}
		order[place] = selected[(next+round)%n]
	}
	if n%2 == 1 && round/n%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// Progress receives the events of a run.
type Progress interface {
	// Step announces an allocator's run.
	Step(label string)
	// Tick reports one of the parts that a run consists of as done.
	Tick(label string)
	// Drop reports that parts announced at the start are skipped.
	Drop(parts int)
}

// Work measures one step. It calls tick after each of its parts.
type Work func(ctx context.Context, step Step, tick func(label string)) (result.Sample, error)

// Plan describes the steps of a run.
type Plan struct {
	Allocators []allocators.Allocator
	Subjects   []string // the subjects of a round, one after another; nil is one without a name
	Rounds     int
	First      int           // the number of the first round; above 0 when rounds are added to others
	Parts      int           // how often Work ticks
	Budget     time.Duration // nothing starts that would end after it, and what does not end by it is dropped, but the first step; 0 is no bound
	Expect     time.Duration // how long a step is known to take; 0 when nothing is known
	Limit      time.Duration // a longer step is stopped and has failed; 0 is no limit
	Out        Out           // earlier failures; nil is none
	Work       Work
	Progress   Progress
	Now        func() time.Time
	Finished   func() // called after each round; may be nil
}

// A Pass holds the values that may differ from one Run of a plan to the next. The fields of Plan describe
// them.
type Pass struct {
	Rounds                int
	Budget, Expect, Limit time.Duration
	Progress              Progress
}

// With is the plan for one pass.
func (p Plan) With(pass Pass) Plan {
	p.Rounds, p.Budget, p.Expect, p.Limit, p.Progress = pass.Rounds, pass.Budget, pass.Expect, pass.Limit, pass.Progress
	return p
}

// Out records how often each allocator has failed at each subject. The caller keeps it from one Run to the
// next: after two failures an allocator is not run again. One failure alone may be the machine's.
type Out map[place]int

const tries = 2

// Total is the number of ticks of Work in the whole plan.
func (p Plan) Total() int { return p.Parts * p.Rounds * len(p.Allocators) * len(p.subjects()) }

func (p Plan) subjects() []string {
	if p.Subjects == nil {
		return []string{""}
	}
	return p.Subjects
}

// Run fills results round by round. An allocator that fails at a subject is left out of that subject in
// later rounds; its earlier values stay, and the other allocators continue. If ctx ends, the results keep
// the steps that all allocators have finished and drop the unfinished ones.
func Run(ctx context.Context, p Plan, results *result.Results) error {
	start, before := p.Now(), results.Seconds
	defer func() { results.Seconds = before + p.Now().Sub(start).Seconds() }()
	if p.Out == nil {
		p.Out = Out{}
	}
	r := runner{Plan: p, results: results, skipped: map[place]bool{}, deadline: start.Add(p.Budget), begun: new(int), finished: new(int)}
	var longest time.Duration
	for round := range p.Rounds {
		began := p.Now()
		if p.Budget > 0 && round > 0 && began.Sub(start)+longest > p.Budget {
			results.Notes = append(results.Notes, fmt.Sprintf(
				"stopped after %d of %d rounds, as another would not have ended within %v", round, p.Rounds, p.Budget))
			break
		}
		for _, subject := range p.subjects() {
			err := r.subject(ctx, p.First+round, subject)
			if errors.Is(err, errLate) {
				results.Notes = append(results.Notes, fmt.Sprintf(
					"stopped in round %d of %d, as it would not have ended within %v", round+1, p.Rounds, p.Budget))
				return nil
			}
			if err != nil {
				results.Notes = append(results.Notes, fmt.Sprintf("interrupted in round %d of %d", round+1, p.Rounds))
				return err
			}
		}
		results.Rounds = p.First + round + 1
		if p.Finished != nil {
			p.Finished()
		}
		longest = max(longest, p.Now().Sub(began))
	}
	if *r.finished == 0 {
		return errors.New("no allocator could be measured to the end; the messages above give the reasons")
	}
	return nil
}

// errLate ends a round that was begun in time and would not end in time.
var errLate = errors.New("the budget is spent")

// A place is an allocator with a subject from which it may be excluded.
type place struct{ subject, allocator string }

type runner struct {
	Plan
	results  *result.Results
	skipped  map[place]bool // in this Run: failed, or no time
	deadline time.Time
	begun    *int // steps
	finished *int // steps
}

// order returns the order of a round. If the budget may cut the round short, Granary's variants are first,
// because all others are compared with them; allocators with the fewest rounds are next.
func (r runner) order(round int) []allocators.Allocator {
	list := Order(r.Allocators, round)
	if r.Budget == 0 || round > r.First || r.Expect > 0 && r.Expect*time.Duration(len(list)*len(r.subjects())) < r.Budget {
		return list
	}
	if r.First == 0 {
		list = slices.Clone(r.Allocators)
	}
	had := map[string]int{}
	for _, c := range list {
		had[c.Name] = r.results.RoundsOf(c.Name)
	}
	slices.SortStableFunc(list, func(a, b allocators.Allocator) int {
		switch {
		case a.IsGranary() && !b.IsGranary():
			return -1
		case b.IsGranary() && !a.IsGranary():
			return 1
		}
		return had[a.Name] - had[b.Name]
	})
	return list
}

// late reports whether another step as long as the longest finished one would end after the budget. The
// first step is never late: without it the run would have no result.
func (r runner) late(longest time.Duration) bool {
	return r.Budget > 0 && longest > 0 && *r.begun > 0 && r.Now().Add(longest).After(r.deadline)
}

// subject measures every allocator that is still in; their samples are kept only if all succeed.
func (r runner) subject(ctx context.Context, round int, subject string) error {
	type measured struct {
		allocator string
		sample    result.Sample
	}
	var done []measured
	longest := r.Expect
	for _, c := range r.order(round) {
		if at := (place{subject, c.Name}); r.Out[at] >= tries || r.skipped[at] {
			continue
		}
		if r.late(longest) {
			if round > r.First {
				return errLate
			}
			r.leaveOut(subject, c.Name)
			r.Progress.Drop(r.Parts * r.Rounds)
			continue
		}
		began := r.Now()
		*r.begun++
		sample, err := r.step(ctx, Step{round, subject, c})
		longest = max(longest, r.Now().Sub(began))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errLate) {
			if round > r.First {
				return errLate
			}
			r.leaveOut(subject, c.Name)
			continue
		}
		if !sample.Empty() {
			done = append(done, measured{c.Name, sample})
		}
		if err == nil {
			*r.finished++
			continue
		}
		r.Out[place{subject, c.Name}]++
		r.skipped[place{subject, c.Name}] = true
		r.results.Failures = append(r.results.Failures, result.Failure{Subject: subject, Allocator: c.Name, Round: round, Reason: err.Error()})
	}
	for _, m := range done {
		r.results.Add(m.allocator, round, m.sample)
	}
	return nil
}

// leaveOut excludes an allocator for lack of time.
func (r runner) leaveOut(subject, allocator string) {
	r.skipped[place{subject, allocator}] = true
	of, they := "", "it"
	if subject != "" {
		of, they = " of some programs", "they"
	}
	r.results.Note(fmt.Sprintf("%s is left out%s, as %s would not have ended within %v; name fewer allocators, or run without --quick",
		allocator, of, they, r.Budget.Round(time.Second)))
}

func (r runner) step(ctx context.Context, step Step) (result.Sample, error) {
	label := strings.Join(strings.Fields(step.Allocator.Name+" "+step.Subject), " ")
	r.Progress.Step(fmt.Sprintf("round %d/%d %s", step.Round-r.First+1, r.Rounds, label))
	ticks := 0
	within := ctx
	limit, cause := r.Limit, fmt.Errorf("it did not end within %v and was stopped", r.Limit.Round(time.Millisecond))
	if left := r.deadline.Sub(r.Now()); r.Budget > 0 && *r.begun > 1 && (limit == 0 || left < limit) {
		limit, cause = max(left, time.Millisecond), errLate // the machine became slower than it was
	}
	if limit > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, limit, cause)
		defer cancel()
	}
	sample, err := r.Work(within, step, func(part string) {
		ticks++
		r.Progress.Tick(label + " " + part)
	})
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = context.Cause(within)
	}
	if err != nil {
		r.Progress.Drop(r.Parts - ticks + r.Parts*(r.Rounds-(step.Round-r.First)-1))
	}
	return sample, err
}
