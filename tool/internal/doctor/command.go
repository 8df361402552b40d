package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary doctor`.
var Command = cli.Command{
	Name: "doctor", Usage: "[PID | CMD] [options]", Takes: cli.PIDs,
	Summary: "find what keeps an allocator from working, with a remedy for each finding",
	About: `Without an argument it checks the system's settings: overcommit, huge pages, the number of
mappings, the rights to read other processes. For a process also: which allocator is called and which
others are loaded, why a preload had no effect, wrong options, limits of the cgroup and of the address
space. For a program: whether it would run under Granary at all.`,
	Examples: []cli.Example{
		{Line: "doctor", Does: "the system"},
		{Line: "doctor 812", Does: "a running process"},
		{Line: "doctor redis-server", Does: "a program before it is started"},
		{Line: "doctor --json | jq '.findings[] | select(.severity == \"problem\")'", Does: "for a script"},
	},
	Exits: cli.Exits("no problem (there may be warnings and notes)", "a problem was found, or the process or program cannot be read"),
	Setup: setup,
}

func setup(fs *pflag.FlagSet) cli.Action {
	asJSON := fs.Bool("json", false, "print JSON")
	lib := fs.String("lib", "", "the `library` that would be preloaded (default: libgranary.so beside this command, or installed)")
	return cli.Arguments(0, 1, "one PID or one program", func(_ context.Context, env cli.Env, args []string) error {
		library, err := preload.Library(*lib, env.Getenv("GRANARY_LIB"), env.Exe)
		if err != nil && *lib != "" {
			return err
		}
		report, err := examine(Live(env.Environ, library), args)
		if err != nil {
			return err
		}
		if *asJSON {
			err = term.JSON(env.Stdout, report)
		} else {
			report.write(env.Stdout, term.TextWidth(env.Stdout))
		}
		if err == nil && report.Problems() > 0 {
			err = &cli.ExitError{Code: cli.CodeFailed}
		}
		return err
	})
}

// examine runs the checks for the argument: digits name a process.
func examine(w World, args []string) (Report, error) {
	if len(args) == 0 {
		return System(w), nil
	}
	if strings.Trim(args[0], "0123456789") == "" {
		pid, err := cli.PID(args[0])
		if err != nil {
			return Report{}, err
		}
		return Process(w, pid)
	}
	path, err := preload.Resolve(args[0], variable(w.Environ, "PATH"))
	if err != nil {
		return Report{}, err
	}
	return Program(w, path)
}

func (r Report) write(out io.Writer, width int) {
	for _, f := range r.Findings {
		fmt.Fprintln(out, term.Wrap(fmt.Sprintf("%-8s ", strings.ToUpper(string(f.Severity))), f.What+".", width))
		fmt.Fprintln(out, term.Wrap("         -> ", f.Remedy+".", width))
	}
	if len(r.Fine) > 0 {
		fmt.Fprintln(out, term.Wrap("fine     ", strings.Join(r.Fine, ", "), width))
	}
	counts := map[Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	fmt.Fprintln(out, term.Wrap("", fmt.Sprintf("%s: %s, %s, %s in %d checks", r.Subject, term.Some(counts[Problem], "problem"),
		term.Some(counts[Warning], "warning"), term.Some(counts[Note], "note"), r.Checks), width))
}
