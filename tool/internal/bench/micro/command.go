package micro

import (
	"bytes"
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

type options struct {
	bench.Options
	suite, programs, only string
}

// rounds are as many in a quick run: its programs are short, not few.
var rounds = bench.Rounds{Full: 3, Quick: 3}

// Setup declares the flags of `granary bench micro` and returns its work.
func Setup(fs *pflag.FlagSet) cli.Action {
	o := &options{}
	o.Register(fs, rounds)
	fs.StringVar(&o.suite, "suite", "", "the `file` that lists the programs (default: bench/suites/micro.toml of the source tree)")
	fs.StringVar(&o.programs, "programs", "", "the `folder` of the built programs (default: build/bench of the source tree)")
	fs.StringVar(&o.only, "only", "", "measure the programs whose name matches this `regexp`")
	return cli.Arguments(0, 0, "options", func(ctx context.Context, env cli.Env, _ []string) error { return o.command(ctx, env) })
}

// beside finds a path of the source tree from the current folder, else from where the command was
// built, which is two folders down.
func beside(exe, path string) string {
	if _, err := os.Stat(path); err == nil {
		return path
	}
	built := filepath.Join(filepath.Dir(exe), "..", "..", path)
	if _, err := os.Stat(built); err == nil {
		return built
	}
	return path
}

func (o options) command(ctx context.Context, env cli.Env) error {
	if o.suite == "" {
		o.suite = beside(env.Exe, "bench/suites/micro.toml")
	}
	if o.programs == "" {
		o.programs = beside(env.Exe, "build/bench")
	}
	if err := o.Check(rounds); err != nil {
		return err
	}
	suite, err := ReadSuite(o.suite)
	if err == nil {
		suite, err = suite.Only(o.only)
	}
	if err != nil {
		return err
	}
	goal, err := advice.Find(o.Goal)
	if err != nil {
		return cli.Usagef("--goal: %w", err)
	}
	contenders, notes, err := o.Select(env)
	if err == nil {
		err = run.Adopt()
	}
	if err != nil {
		return err
	}
	w := workbench{suite: suite, dir: o.programs, quick: o.Quick, proc: procfs.Live(), environ: env.Environ}
	results := bench.NewResults(env, "micro", map[string]any{"suite": suite.Names(), "quick": o.Quick}, nil, suite.Rows())
	results.Notes = notes
	for _, c := range contenders {
		if err := w.effective(ctx, c); err != nil {
			results.Failures = append(results.Failures, bench.Failure{Contender: c.Name, Reason: err.Error()})
			continue
		}
		results.Contenders = append(results.Contenders, c)
	}
	contenders = results.Contenders
	if o.Out != "" {
		if results, err = archive.Extend(o.Out, results); err != nil {
			return err
		}
	}
	return bench.Ended(publish(env, o, goal, results, w.execute(ctx, env, o.Rounds, contenders, results)))
}

func (w workbench) execute(ctx context.Context, env cli.Env, rounds int, contenders []allocators.Contender, results *bench.Results) error {
	p := plan.Plan{
		Contenders: contenders, Subjects: w.suite.Names(), Rounds: rounds, First: results.Rounds, Parts: 1, Now: time.Now,
		Work: func(ctx context.Context, step plan.Step, tick func(string)) (bench.Sample, error) {
			sample, err := w.measure(ctx, step.Subject, step.Contender)
			if err == nil {
				tick("")
			}
			return sample, err
		},
	}
	progress := term.NewProgress(env.Stderr, time.Now, p.Total())
	defer progress.Close()
	p.Progress = progress
	return plan.Run(ctx, p, results)
}

// publish prints and writes what there is, also after an error.
func publish(env cli.Env, o options, goal advice.Goal, results *bench.Results, err error) error {
	lines := report.Compare(results, report.BestPeer)
	tables := tablesOf(results, lines)
	width, _ := term.Width(env.Stdout)
	for _, t := range tables {
		t.Terminal(env.Stdout, width)
	}
	if len(tables) > 0 {
		fmt.Fprint(env.Stdout, report.Legend(report.BestPeer))
	}
	report.Remarks(env.Stdout, results)
	if o.JSON != "" {
		err = errors.Join(err, results.WriteJSON(o.JSON))
	}
	if o.Out != "" {
		err = errors.Join(err, write(o.Out, results, goal, tables))
	}
	return err
}

func tablesOf(results *bench.Results, lines []report.Line) []report.Table {
	if len(lines) == 0 {
		return nil
	}
	title := fmt.Sprintf("Programs under %s: medians of %d rounds, %.0f s",
		count(results.Contenders), results.Rounds, results.Seconds)
	tables := []report.Table{report.Lines(title, results, lines)}
	if missed := report.Missed(lines); len(missed.Rows) > 0 {
		tables = append(tables, missed)
	}
	if means := report.Means(results, lines); len(means.Rows) > 0 {
		tables = append(tables, means)
	}
	return tables
}

func count(contenders []allocators.Contender) string {
	if len(contenders) == 1 {
		return contenders[0].Name
	}
	return fmt.Sprintf("%d allocators", len(contenders))
}

func write(dir string, results *bench.Results, goal advice.Goal, tables []report.Table) error {
	var page bytes.Buffer
	report.Document(&page, results, tables, report.BestPeer)
	return archive.Write(dir, results, goal, page.Bytes())
}
