package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"

	"github.com/spf13/pflag"
)

// Publish is `granary bench publish`.
var Publish = cli.Command{
	Name: "bench publish", Usage: "FROM TO [options]", Summary: "write results in a form small enough for a source tree",
	About: "FROM is a folder written by `granary bench all`. TO gets a CSV file for each scenario with the value of every round, set.json with the machine and the allocators, " +
		"and README.md with a table, the rows where Granary loses, and the best allocators for each goal. Time series and single runs stay in FROM; keep them as an archive beside the release.",
	Examples: []cli.Example{{Line: "bench publish build/results bench/results/2026-11-22-zen4-2cpu", Does: "put the summaries of these results into the tree"}},
	Takes:    cli.Files, Setup: publishSetup,
}

// emptyBlock is filled by drawing it.
const emptyBlock = "<!-- measured: begin . -->\n<!-- measured: end -->\n\n"

func publishSetup(fs *pflag.FlagSet) cli.Action {
	rows := fs.String("layout", "", "the `file` that lists columns and rows of the table (default: results.toml of the source tree or of the package)")
	return cli.Arguments(2, 2, "the folder of the results and the folder to write", func(_ context.Context, env cli.Env, args []string) error {
		if *rows == "" {
			*rows = preload.Suite(env.Exe, "results.toml")
		}
		layout, err := ReadLayout(*rows)
		if err != nil {
			return err
		}
		if err := publish(args[0], args[1], layout); err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "Written: %s\n", filepath.Join(args[1], Summary))
		return err
	})
}

func publish(from, to string, layout Layout) error {
	all, err := result.ReadAll(from)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s holds no results; name the folder that was given to `granary bench all --out`", from)
	}
	suite, err := result.ReadSuite(from)
	if err != nil {
		return err
	}
	file := filepath.Join(to, Summary)
	err = result.Publish(to, all, suite)
	if err == nil {
		err = os.WriteFile(file, Text(all, suite, emptyBlock, "%s.csv"), 0o644)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("publish %s", from), err)
	}
	drawing, err := Draw(file, "", layout)
	if err != nil {
		return err
	}
	return drawing.Write(file)
}
