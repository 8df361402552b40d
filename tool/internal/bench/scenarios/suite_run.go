package scenarios

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// options hold the parsed command line.
type options struct {
	suite, out, allocators, lib, goal string
	only                              []string
	rounds                            int
	budget                            time.Duration
	quick, variants                   bool
}

// writing is the time reserved for the report of each scenario at the end.
const writing = 3 * time.Second

// A suiteRun measures the rounds of a suite.
type suiteRun struct {
	options
	env      cli.Env
	now      func() time.Time
	start    time.Time
	size     runner.Size
	entries  []Entry
	selected []allocators.Allocator
	members  []member           // like entries
	sessions []*measure.Session // like entries; nil until opened
	progress *progress
	failures []string
}

func (o options) run(ctx context.Context, env cli.Env, now func() time.Time) error {
	path := o.suite
	if path == "" {
		path = preload.Suite(env.Exe, "full.toml")
	}
	s, err := Read(path)
	if err == nil {
		s, err = s.only(o.only)
	}
	if err != nil {
		return err
	}
	r := &suiteRun{options: o, env: env, now: now, start: now(), entries: s.Entries, sessions: make([]*measure.Session, len(s.Entries))}
	if r.selected, err = r.selectAllocators(); err != nil {
		return err
	}
	state, err := result.ReadSuite(o.out)
	if err == nil {
		err = r.decide(state)
	}
	if err != nil {
		return err
	}
	state.Size = string(r.size)
	if err := state.Write(o.out); err != nil { // before anything is measured, as a run may be killed
		return err
	}
	width, _ := term.Width(env.Stderr)
	r.progress = &progress{out: env.Stderr, width: width, now: now, start: r.start}
	announce(env, "%s", r.announcement())
	defer r.close()
	ended := r.measure(ctx)
	r.progress.close()
	return r.conclude(state, ended)
}

// selectAllocators returns the allocators of every scenario.
func (r *suiteRun) selectAllocators() ([]allocators.Allocator, error) {
	choice := measure.Options{Lib: r.lib, Variants: r.variants}
	if r.allocators != "" {
		choice.Allocators = measure.Names(r.allocators)
	}
	selected, _, err := choice.Select(r.env) // each scenario notes what is missing
	return selected, err
}

// decide chooses the size: that of the folder's results, else that of the command line, else the largest
// that fits the budget.
func (r *suiteRun) decide(state result.Suite) error {
	switch had := runner.Size(state.Size); {
	case had != "" && r.quick && had != runner.Quick:
		return fmt.Errorf("%s holds results of the %s sizes; give another folder with --out, or leave --quick out", r.out, had)
	case had != "":
		r.size = had
	case r.quick:
		r.size = runner.Quick
	default:
		r.size = runner.Full
	}
	r.members = r.plan(r.size)
	if r.size == runner.Full && state.Size == "" && r.budget > 0 && remaining(atMost(r.members, fewest)) > r.left().Seconds() {
		r.size = runner.Quick
		r.members = r.plan(r.size)
	}
	return nil
}

// fewest rounds that show a difference worth measuring at full size.
const fewest = 3

// atMost returns the plan with at most the given number of rounds.
func atMost(members []member, rounds int) []member {
	out := slices.Clone(members)
	for i := range out {
		out[i].wanted = min(out[i].wanted, rounds)
	}
	return out
}

// plan returns the progress of each scenario, from the results in the folder.
func (r *suiteRun) plan(size runner.Size) []member {
	var out []member
	for _, e := range r.entries {
		m := member{guess: e.seconds(size), prepare: e.Prepare, visits: len(r.selected), wanted: r.rounds}
		if m.wanted == 0 {
			m.wanted = e.rounds(size)
		}
		if prior, err := result.Read(filepath.Join(r.out, e.Name)); err == nil { // opening the scenario reports a file that cannot be read
			m.finished, m.measured = finished(prior, r.selected), average(prior)
		}
		out = append(out, m)
	}
	return out
}

// finished is in how many rounds every allocator was measured, but those that failed.
func finished(r *result.Results, selected []allocators.Allocator) int {
	least := r.Rounds
	for _, c := range selected {
		if !slices.ContainsFunc(r.Failures, func(f result.Failure) bool { return f.Allocator == c.Name }) {
			least = min(least, r.RoundsOf(c.Name))
		}
	}
	return least
}

// average is the mean time of a visit in seconds.
func average(r *result.Results) float64 {
	visits := 0
	for _, c := range r.Allocators {
		visits += r.RoundsOf(c.Name)
	}
	if visits == 0 {
		return 0
	}
	return r.Seconds / float64(visits)
}

// left is the time until measuring must end, so that the reports can be written.
func (r *suiteRun) left() time.Duration {
	if r.budget == 0 {
		return unbounded
	}
	return r.budget - r.now().Sub(r.start) - writing*time.Duration(len(r.entries))
}

func (r *suiteRun) announcement() string {
	text := fmt.Sprintf("%s, %s, %s sizes: ", term.Counted(len(r.entries), "scenario"), term.Counted(len(r.selected), "allocator"), r.size)
	total := remaining(r.members)
	if !slices.ContainsFunc(r.members, member.open) {
		return text + "all rounds are finished; request more with --rounds"
	}
	text += fmt.Sprintf("about %v for all rounds", minutes(total))
	if r.budget > 0 && total > r.left().Seconds() {
		p, once := pace(r.members), 0.0
		for _, m := range r.members {
			once += m.round(p)
		}
		text += fmt.Sprintf(", %v for one; the budget of %v bounds it", minutes(once), r.budget)
	}
	return text
}

func minutes(s float64) time.Duration { return seconds(s).Round(time.Minute / 6) }

// measure runs rounds of the scenarios until all rounds are finished or the time is used up.
func (r *suiteRun) measure(ctx context.Context) error {
	again := make([]bool, len(r.members))
	for ctx.Err() == nil {
		i, bound, ok := choose(r.members, r.left())
		if !ok {
			break
		}
		if err := r.round(ctx, i, bound); err != nil && ctx.Err() == nil {
			announce(r.env, "%s: %v", r.entries[i].Name, err)
			if again[i] || r.sessions[i] == nil {
				r.failures = append(r.failures, r.entries[i].Name)
				r.members[i].failed = true
			}
			again[i] = true // once: the machine may have been to blame
		}
	}
	return ctx.Err()
}

// round measures one round of one scenario.
func (r *suiteRun) round(ctx context.Context, i int, bound time.Duration) (err error) {
	m := &r.members[i]
	p := pace(r.members)
	own := m.round(p)
	label := fmt.Sprintf("%s, round %d of %d:", r.entries[i].Name, m.finished+1, m.wanted)
	if r.sessions[i] == nil {
		before := r.now()
		if r.sessions[i], err = r.openWithin(ctx, r.entries[i], max(10*time.Minute, seconds(10*m.prepare))); err != nil {
			return err
		}
		m.prepare = 0
		if bound > 0 {
			bound = max(time.Second, bound-r.now().Sub(before))
		}
	}
	x := r.sessions[i]
	after := remaining(r.members) - own
	if r.budget > 0 {
		after = min(after, max(0, r.left().Seconds()-own))
	}
	here := own
	if bound > 0 {
		here = min(here, bound.Seconds())
	}
	r.progress.begin(label, here, after, x.Steps())
	expect := seconds(m.visit(p) * float64(m.visits) / float64(max(1, x.Steps())))
	failed := len(x.Results().Failures)
	limit := 5*time.Minute + 10*expect
	if r.budget > 0 {
		limit = min(limit, max(expect, r.left()))
	}
	err = x.Measure(ctx, measure.Pass{Rounds: 1, Budget: bound, Expect: expect, Limit: limit, Progress: r.progress})
	for _, f := range x.Results().Failures[failed:] {
		announce(r.env, "%s: %s failed in round %d: %s", r.entries[i].Name, strings.TrimSpace(f.Subject+" "+f.Allocator), f.Round+1, f.Reason)
	}
	if err != nil {
		return err
	}
	m.finished++
	m.measured = average(x.Results())
	return nil
}

// openWithin is open with a limit: what a scenario prepares may wait for a network.
func (r *suiteRun) openWithin(ctx context.Context, e Entry, limit time.Duration) (*measure.Session, error) {
	limit = min(limit, max(10*time.Second, r.left()))
	within, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not prepared within %v", limit.Round(time.Millisecond)))
	defer cancel()
	x, err := r.open(within, e)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = context.Cause(within)
	}
	return x, err
}

// open opens a scenario with the options that all of them take.
func (r *suiteRun) open(ctx context.Context, e Entry) (*measure.Session, error) {
	args := append(slices.Clone(e.options(r.size)), "--out", filepath.Join(r.out, e.Name), "--goal", r.goal)
	for _, option := range []struct{ name, value string }{{"--allocators", r.allocators}, {"--lib", r.lib}} {
		if option.value != "" {
			args = append(args, option.name, option.value)
		}
	}
	if r.variants {
		args = append(args, "--variants")
	}
	return e.open(ctx, r.env, args)
}

// conclude writes every report and the summary, also after an interrupt.
func (r *suiteRun) conclude(state result.Suite, ended error) error {
	state.Remarks = append(state.Remarks, r.account(ended))
	err := state.Write(r.out)
	for i, x := range r.sessions {
		if x == nil {
			continue
		}
		if r.budget > 0 {
			x.Results().Note(fmt.Sprintf("measured as part of a suite that was to end within %v, at the %s size", r.budget, r.size))
		}
		if archiveErr := x.Archive(); archiveErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.entries[i].Name, archiveErr))
		}
	}
	if err = errors.Join(err, report.Summarise(r.out, r.env.Stdout)); err != nil {
		return err
	}
	announce(r.env, "%s\nThe summary is %s", state.Remarks[len(state.Remarks)-1], filepath.Join(r.out, report.Summary))
	if ended != nil {
		return &cli.ExitError{Code: 130, Err: fmt.Errorf("interrupted; finished rounds are kept in %s, and the same command continues from there", r.out)}
	}
	if len(r.failures) > 0 {
		return fmt.Errorf("not measured: %s; the messages above give the reasons", strings.Join(r.failures, ", "))
	}
	return nil
}

// account states which rounds this call of the command added.
func (r *suiteRun) account(ended error) string {
	var did []string
	missing := false
	for i, m := range r.members {
		missing = missing || m.open()
		did = append(did, r.entries[i].Name+" "+strconv.Itoa(m.finished)+" of "+strconv.Itoa(m.wanted))
	}
	text := fmt.Sprintf("%s: %s sizes, rounds: %s", r.start.UTC().Format("2 January 2006, 15:04 UTC"), r.size, strings.Join(did, ", "))
	switch {
	case ended != nil:
		text += "; interrupted"
	case missing && r.budget > 0:
		text += fmt.Sprintf("; the budget of %v allowed no more", r.budget)
	}
	if len(r.failures) > 0 {
		text += "; failed: " + strings.Join(r.failures, ", ")
	}
	return text + "."
}

func (r *suiteRun) close() {
	for _, x := range r.sessions {
		if x != nil {
			x.Close()
		}
	}
}
