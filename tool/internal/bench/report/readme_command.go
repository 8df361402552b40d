package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/preload"

	"github.com/spf13/pflag"
)

const granary = inspect.Granary

type allocator = allocators.Allocator

var errNothingToDraw = errors.New("the results have no allocator but Granary; measure others, too")

// Readme is `granary bench readme`.
var Readme = cli.Command{
	Name: "bench readme", Usage: "[DIR] [options]", Summary: "draw a README's table and plot from results",
	About: "DIR is a folder written by `granary bench all`. The block of the README between `<!-- measured: begin DIR -->` and `<!-- measured: end -->` is replaced, " +
		"and so is docs/images/measured.svg beside it. Without DIR it is drawn from the folder that the README names.",
	Examples: []cli.Example{
		{Line: "bench readme bench/results/2026-11-21", Does: "show these results in README.md"},
		{Line: "bench readme --check", Does: "check that README.md matches the folder of results that it names"},
	},
	Exits: cli.Exits("fine", "with --check: the README shows something else; or it failed"),
	Takes: cli.Files, Setup: readmeSetup,
}

func readmeSetup(fs *pflag.FlagSet) cli.Action {
	file := fs.String("file", "README.md", "the README (`file`)")
	rows := fs.String("layout", "", "the `file` that lists columns and rows (default: bench/suites/readme.toml beside the README, else the one that comes with this command)")
	check := fs.Bool("check", false, "write nothing; end with code 1 when something would change")
	return cli.Arguments(0, 1, "the folder of the results", func(_ context.Context, env cli.Env, args []string) error {
		dir := ""
		if len(args) == 1 {
			var err error
			if dir, err = beside(*file, args[0]); err != nil {
				return err
			}
		}
		if *rows == "" {
			*rows = layoutOf(*file, env.Exe)
		}
		layout, err := ReadLayout(*rows)
		if err != nil {
			return err
		}
		drawing, err := Draw(*file, dir, layout)
		if err != nil {
			return err
		}
		differing := drawing.Differing(*file)
		switch {
		case len(differing) == 0:
			_, err = fmt.Fprintf(env.Stdout, "%s shows these results already\n", *file)
			return err
		case *check:
			return fmt.Errorf("not as the results are: %s; run `granary bench readme`", strings.Join(differing, ", "))
		}
		if err := drawing.Write(*file); err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "Written: %s\n", strings.Join(differing, ", "))
		return err
	})
}

// beside returns a folder's path relative to the README's folder.
func beside(file, dir string) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	from, err1 := filepath.Abs(filepath.Dir(file))
	to, err2 := filepath.Abs(dir)
	if err := errors.Join(err1, err2); err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	relative, err := filepath.Rel(from, to)
	if err != nil || strings.HasPrefix(relative, "..") {
		return "", fmt.Errorf("%s is not below the folder of %s, so a link to it would be broken; copy it there", dir, file)
	}
	return relative, nil
}

// layoutOf is the layout beside the README, or else the one that comes with the command.
func layoutOf(file, exe string) string {
	beside := filepath.Join(filepath.Dir(file), "bench", "suites", "readme.toml")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	return preload.Suite(exe, "readme.toml")
}
