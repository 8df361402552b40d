// Package scenarios holds the scenarios of `granary bench`, one file for each, and suites, which run many scenarios
// round by round, so that every scenario has its first round early.
package scenarios

import (
	"context"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// All are the scenarios, in the order in which help lists them.
var All = []runner.Scenario{
	redisScenario, kv, mariadb, nginx, memcached, postgres, rocksdb, python, node, rax, soak, coldData,
}

// Plan is `granary bench --plan FILE`: a user's own service, measured like the built-in ones.
var Plan = cli.Command{
	Name: "bench", Usage: "--plan FILE [options]", Summary: "compare allocators under a service of your own",
	About: "The file says how to start the service, how to check that it is ready, which load to send and which numbers to read from the load's output. " +
		"docs/guides/bench-your-service.md explains it line by line.",
	Examples: []cli.Example{{Line: "bench --plan service.yaml --out results", Does: "measure it under every allocator found"}},
	Setup:    planSetup,
}

func planSetup(fs *pflag.FlagSet) cli.Action {
	path := fs.String("plan", "", "the `file` that describes the service")
	empty := runner.Scenario{Rounds: measure.Rounds{Full: 5, Quick: 3}, Phases: func(runner.Values) []runner.Phase { return nil }}
	in := empty.Declare(fs)
	return cli.Arguments(0, 0, "options, or the name of a scenario that `granary help` lists", func(ctx context.Context, env cli.Env, _ []string) error {
		if *path == "" {
			return cli.Usagef("name the scenario: --plan FILE, or one of %s", strings.Join(names(), ", "))
		}
		service, err := ReadService(*path)
		if err != nil {
			return err
		}
		return service.Scenario().Execute(ctx, env, in)
	})
}

func names() []string {
	var out []string
	for _, s := range All {
		out = append(out, "bench "+s.Name)
	}
	return append(out, "bench micro")
}
