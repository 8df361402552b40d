package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// Command is `granary bench all`.
var Command = cli.Command{
	Name: "bench all", Usage: "--out DIR [options]", Summary: "run every scenario of a suite, and summarise the results",
	About: "Goes round by round over all scenarios, so that each has its first round early. Each scenario's results go to a folder of its own below DIR; " +
		"if a scenario cannot run, the command prints the reason and continues with the others. The same command continues an interrupted suite: finished rounds are kept, and " +
		"rounds are added until DIR has the requested number. With --budget it ends in time: it uses the short sizes if three rounds of the full ones " +
		"would not fit, measures as many rounds as fit, and records this in the results. DIR/README.md is the summary; it begins with the rows in which Granary loses.",
	Examples: []cli.Example{
		{Line: "bench all --out results --budget 40m", Does: "as much as fits into forty minutes"},
		{Line: "bench all --out results --quick", Does: "three rounds of every scenario at its short size, in about an hour"},
		{Line: "bench all --out results --only redis,mariadb --rounds 8", Does: "two of them at full size, until there are eight rounds"},
	},
	Takes: cli.Files, Setup: setup,
}

func setup(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.StringVar(&o.out, "out", "", "the `folder` of the results")
	fs.StringVar(&o.suite, "suite", "", "the `file` that lists the scenarios (default: full.toml of the source tree or of the package)")
	fs.StringSliceVar(&o.only, "only", nil, "only these scenarios, by `names` separated by commas")
	fs.IntVar(&o.rounds, "rounds", 0, "number of rounds in the results (default: that of each scenario)")
	fs.BoolVar(&o.quick, "quick", false, "the short size of each scenario")
	fs.DurationVar(&o.budget, "budget", 0, "end within this time, with the sizes and rounds that fit")
	fs.BoolVar(&o.variants, "variants", false, "also the settings that people use")
	fs.StringVar(&o.allocators, "allocators", "", "as in the scenarios (default: all that are found; `names`)")
	fs.StringVar(&o.lib, "lib", "", "the `library` measured as granary")
	fs.StringVar(&o.goal, "goal", "rss", "the `goal` whose advice comes first: rss, throughput, p99 or cpu")
	return cli.Arguments(0, 0, "options", func(ctx context.Context, env cli.Env, _ []string) error {
		switch {
		case o.out == "":
			return cli.Usagef("name the folder of the results: --out DIR")
		case o.rounds < 0:
			return cli.Usagef("--rounds must be 1 or more")
		case o.budget < 0:
			return cli.Usagef("--budget must be a time such as 40m")
		}
		return o.run(ctx, env, time.Now)
	})
}

// announce prints a message between the lines of progress.
func announce(env cli.Env, format string, args ...any) { fmt.Fprintf(env.Stdout, format+"\n", args...) }
