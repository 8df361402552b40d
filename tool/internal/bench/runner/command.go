package runner

import (
	"context"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// quickBudget keeps a quick run under three minutes also where more allocators are found.
const quickBudget = 170 * time.Second

// Command is the scenario as a row of the table of commands.
func (s Scenario) Command() cli.Command {
	return cli.Command{Name: "bench " + s.Name, Usage: "[options]", Summary: s.Summary, About: s.About, Examples: s.Examples, Setup: s.setup}
}

// An Invocation holds the parsed command line of one scenario.
type Invocation struct {
	measure.Options
	long   bool
	tune   string
	cpu    bool
	budget time.Duration
	given  map[string]*word
	values Values
}

// Declare declares the flags of the scenario. The values are valid after the flags are parsed.
func (s Scenario) Declare(fs *pflag.FlagSet) *Invocation {
	in := &Invocation{}
	in.Register(fs, s.Rounds)
	fs.BoolVar(&in.long, "long", false, "a larger run, of hours")
	fs.StringVar(&in.tune, "tune", "", "search the settings of this allocator that serve the goal best, by `name`")
	fs.DurationVar(&in.budget, "budget", 0, "start no run that would end after this time (default: none, with --quick 2m50s)")
	fs.BoolVar(&in.cpu, "cpu", false, "sample the server's CPU time by function: a table and flame graphs in the report, and pprof's files beside it; needs --out")
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

// check sets the options that the command line leaves out.
func (in *Invocation) check(s Scenario) (err error) {
	if in.Quick && in.long {
		return cli.Usagef("--quick and --long exclude each other; give one")
	}
	if in.cpu && in.Out == "" {
		return cli.Usagef("--cpu writes files; name their folder with --out")
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

// run measures and writes the reports. It returns the finished results even if it also returns an error.
func (s Scenario) run(ctx context.Context, env cli.Env, in Invocation) (*result.Results, error) {
	x, err := s.open(ctx, env, in)
	if err != nil {
		return nil, measure.Ended(err)
	}
	defer x.Close()
	budget := in.budget
	if in.Quick && budget == 0 {
		budget = quickBudget
	}
	return x.Results(), measure.Ended(x.Run(ctx, budget))
}
