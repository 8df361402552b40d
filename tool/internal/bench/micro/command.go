package micro

import (
	"context"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

type options struct {
	measure.Options
	suite, programs, only string
}

// Rounds are as many in a quick run: its programs are short, not few.
var Rounds = measure.Rounds{Full: 3, Quick: 3}

// Command is the row of `granary bench micro` in the table of commands.
var Command = cli.Command{Name: "bench micro", Usage: "[options]", Summary: "compare allocators with small programs of known allocation patterns", Setup: setup}

func setup(fs *pflag.FlagSet) cli.Action {
	o := &options{}
	o.declare(fs)
	return cli.Arguments(0, 0, "options", func(ctx context.Context, env cli.Env, _ []string) error { return o.command(ctx, env) })
}

func (o *options) declare(fs *pflag.FlagSet) {
	o.Register(fs, Rounds)
	fs.StringVar(&o.suite, "suite", "", "the `file` that lists the programs (default: micro.toml of the source tree or of the package)")
	fs.StringVar(&o.programs, "programs", "", "the `folder` of the built programs (default: that of the source tree or of the package)")
	fs.StringVar(&o.only, "only", "", "measure the programs whose name matches this `regexp`")
}

func (o *options) command(ctx context.Context, env cli.Env) error {
	x, err := o.open(ctx, env)
	if err != nil {
		return measure.Ended(err)
	}
	defer x.Close()
	return measure.Ended(x.Run(ctx, 0))
}
