package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/bench/archive"
	"granary/tool/internal/bench/plan"
	"granary/tool/internal/bench/report"
	"granary/tool/internal/bench/run"
	"granary/tool/internal/cli"
	"granary/tool/internal/procfs"
	"granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// quickBudget keeps a quick run under three minutes also where more contenders are found.
const quickBudget = 170 * time.Second

// Command is the scenario as a row of the table of commands.
func (s Scenario) Command() cli.Command {
	return cli.Command{Name: "bench " + s.Name, Usage: "[options]", Summary: s.Summary, About: s.About, Examples: s.Examples, Setup: s.setup}
}

// An Invocation is what a command line asked for.
type Invocation struct {
	bench.Options
	long   bool
	tune   string
	budget time.Duration
	given  map[string]*word
	values Values
}

// Declare declares the flags of the scenario; the values are there once they are parsed.
func (s Scenario) Declare(fs *pflag.FlagSet) *Invocation {
	in := &Invocation{}
	in.Register(fs, s.Rounds)
	fs.BoolVar(&in.long, "long", false, "a larger run, of hours")
	fs.StringVar(&in.tune, "tune", "", "search the settings of this allocator that serve the goal best, by `name`")
	fs.DurationVar(&in.budget, "budget", 0, "begin nothing that would end after this time (default: none, with --quick 2m50s)")
	in.given = registerParams(fs, s.Params)
	return in
}

// Execute checks the command line and runs the scenario.
func (s Scenario) Execute(ctx context.Context, env cli.Env, in *Invocation) error {
	if err := in.check(s); err != nil {
		return err
	}
	if in.tune != "" {
		return s.tune(ctx, env, *in)
	}
	_, err := s.run(ctx, env, *in)
	return err
}

func (s Scenario) setup(fs *pflag.FlagSet) cli.Action {
	in := s.Declare(fs)
	return cli.Arguments(0, 0, "options", func(ctx context.Context, env cli.Env, _ []string) error { return s.Execute(ctx, env, in) })
}

// check fills in what the command line leaves open.
func (in *Invocation) check(s Scenario) (err error) {
	if in.Quick && in.long {
		return cli.Usagef("--quick and --long exclude each other; give one")
	}
	size := Full
	if in.Quick {
		size = Quick
	}
	if in.long {
		size = Long
	}
	if in.values, err = resolve(s.Params, size, in.given); err != nil {
		return err
	}
	return in.Check(s.Rounds)
}

// run measures and publishes. The results are returned as far as they go, also with an error.
func (s Scenario) run(ctx context.Context, env cli.Env, in Invocation) (*bench.Results, error) {
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
	err = s.execute(ctx, env, in, paths, contenders, results)
	return results, bench.Ended(s.publish(env, in, goal, results, err))
}

func (s Scenario) execute(ctx context.Context, env cli.Env, in Invocation, paths map[string]string, contenders []allocators.Contender, results *bench.Results) error {
	dir, err := os.MkdirTemp("", "granary-"+s.Name+"-shared-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // servers that run as others read it
		return fmt.Errorf("open the temporary folder: %w", err)
	}
	shared := &Shared{Dir: dir, Values: in.values, Paths: paths, Environ: env.Environ}
	if s.Prepare != nil {
		fmt.Fprintf(env.Stderr, "preparing %s\n", s.Name)
		if err := s.Prepare(ctx, shared); err != nil {
			return fmt.Errorf("prepare %s: %w", s.Name, err)
		}
	}
	p := plan.Plan{
		Contenders: contenders, Rounds: in.Rounds, First: results.Rounds, Parts: len(s.Phases(in.values)), Now: time.Now,
		Work: func(ctx context.Context, step plan.Step, tick func(string)) (bench.Sample, error) {
			return s.measure(ctx, shared, procfs.Live(), step.Contender, step.Round, tick)
		},
	}
	if p.Budget = in.budget; in.Quick && in.budget == 0 {
		p.Budget = quickBudget
	}
	if in.Out != "" { // a run that is killed keeps its finished rounds
		p.Finished = func() { _ = results.WriteJSON(filepath.Join(in.Out, archive.File)) } // told at the end, if it still fails
	}
	progress := term.NewProgress(env.Stderr, time.Now, p.Total())
	defer progress.Close()
	p.Progress = progress
	return plan.Run(ctx, p, results)
}

// publish prints and writes what there is, also after an error.
func (s Scenario) publish(env cli.Env, in Invocation, goal advice.Goal, results *bench.Results, err error) error {
	lines := report.Compare(results, report.BestOfAll)
	title := fmt.Sprintf("%s under %d allocators: medians of %d rounds, %.0f s", s.Name, len(results.Contenders), results.Rounds, results.Seconds)
	if len(results.Observations) > 0 {
		width, _ := term.Width(env.Stdout)
		report.Lines(title, results, lines).Terminal(env.Stdout, width)
		fmt.Fprint(env.Stdout, report.Legend(report.BestOfAll))
		archive.Advise(env.Stdout, results, goal, "")
	}
	report.Remarks(env.Stdout, results)
	if in.JSON != "" {
		err = errors.Join(err, results.WriteJSON(in.JSON))
	}
	if in.Out != "" && len(results.Observations) > 0 {
		if writeErr := archive.Write(in.Out, results, goal, archive.Markdown(results, goal)); writeErr != nil {
			return errors.Join(err, writeErr)
		}
		fmt.Fprintf(env.Stdout, "The report is %s\n", filepath.Join(in.Out, "report.html"))
	}
	return err
}
