package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"granary/tool/internal/bench"
	"granary/tool/internal/bench/plan"
	"granary/tool/internal/bench/report"
	"granary/tool/internal/cli"
	"granary/tool/internal/procfs"
	"granary/tool/internal/term"

	client "github.com/redis/go-redis/v9"
)

// quickBudget keeps a quick run under three minutes also where more contenders are found.
const quickBudget = 170 * time.Second

// Command is `granary bench redis`.
func Command(ctx context.Context, env cli.Env, args []string) error {
	var o bench.Options
	flags := cli.Flags(env, "bench redis", "[options]")
	o.Register(flags, bench.Rounds{Full: 5, Quick: 3})
	requests := flags.Int("requests", 0, "requests of each test, and keys they are spread over (default 300000, with --quick 30000)")
	if err := cli.Parse(flags, args, cli.CodeUsage); err != nil {
		return err
	}
	if err := o.Check(flags); err != nil {
		return err
	}
	if *requests < 0 || *requests > 0 && *requests < 1000 {
		return &cli.ExitError{Code: cli.CodeUsage, Err: errors.New("--requests must be 1000 or more, as fewer have no p99.9")}
	}
	settings, budget := Full, time.Duration(0)
	if o.Quick {
		settings, budget = Quick, quickBudget
	}
	if *requests > 0 {
		settings.Requests, settings.Keys = *requests, *requests
	}
	client.SetLogger(silent{}) // what fails is said once, by the error
	tools, err := FindTools()
	if err != nil {
		return err
	}
	contenders, notes, err := o.Select(env)
	if err != nil {
		return err
	}
	results := bench.NewResults(env, "redis", map[string]any{"redis": settings}, contenders, Rows(settings))
	results.Notes = notes
	err = execute(ctx, env, o.Rounds, budget, settings, tools, results)
	return bench.Ended(publish(env, o, results, err))
}

func execute(ctx context.Context, env cli.Env, rounds int, budget time.Duration, s Settings, tools Tools, results *bench.Results) error {
	p := plan.Plan{
		Contenders: results.Contenders, Rounds: rounds, Parts: Parts(s), Budget: budget, Now: time.Now,
		Work: func(ctx context.Context, step plan.Step, tick func(string)) (bench.Sample, error) {
			return Measure(ctx, s, tools, procfs.Live(), env.Environ, step.Contender, step.Round, tick)
		},
	}
	progress := term.NewProgress(env.Stderr, time.Now, p.Total())
	defer progress.Close()
	p.Progress = progress
	return plan.Run(ctx, p, results)
}

// publish prints and writes what there is, also after an error.
func publish(env cli.Env, o bench.Options, results *bench.Results, err error) error {
	if len(results.Observations) > 0 {
		title := fmt.Sprintf("redis-server under %d allocators: medians of %d rounds, %.0f s",
			len(results.Contenders), results.Rounds, results.Seconds)
		width, _ := term.Width(env.Stdout)
		report.Lines(title, results, report.Compare(results, report.BestOfAll)).Terminal(env.Stdout, width)
		fmt.Fprint(env.Stdout, report.Legend(report.BestOfAll))
	}
	report.Remarks(env.Stdout, results)
	if o.JSON != "" {
		return errors.Join(err, results.WriteJSON(o.JSON))
	}
	return err
}

// silent is a log of the client library that says nothing.
type silent struct{}

// Printf drops the line.
func (silent) Printf(context.Context, string, ...any) {}
