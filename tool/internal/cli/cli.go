// Package cli turns a table of commands into a program: it finds the row, runs it, and maps its error
// to a sentence and an exit code.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// Env is the world a command works in; tests pass their own.
type Env struct {
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string
	Exe     string // where this program itself lies; it finds its library beside it
	Version string
}

// Live is the environment of this process.
func Live(version string) Env {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return Env{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Exe: exe, Version: version}
}

// Getenv looks up a variable of the environment that was passed in.
func (e Env) Getenv(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(e.Environ[i], "="); key == name {
			return value
		}
	}
	return ""
}

// Command is one row of the table. Name may be two words.
type Command struct {
	Name    string
	Usage   string
	Summary string
	Run     func(ctx context.Context, env Env, args []string) error
}

// ExitError carries the exit code a command ends with. With a nil Err nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit codes: those of env(1) for `run`, and 2 for a wrong command line.
const (
	CodeFailed        = 1
	CodeUsage         = 2
	CodeToolFailed    = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, env Env, commands []Command, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		help(env.Stdout, commands)
		return 0
	}
	cmd, rest, ok := find(commands, args)
	if !ok {
		fmt.Fprintf(env.Stderr, "granary: there is no command %q; `granary help` lists them\n", strings.Join(args, " "))
		return CodeUsage
	}
	return finish(env, cmd.Run(ctx, env, rest))
}

func finish(env Env, err error) int {
	var exit *ExitError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &exit):
		if exit.Err != nil {
			fmt.Fprintf(env.Stderr, "granary: %v\n", exit.Err)
		}
		return exit.Code
	default:
		fmt.Fprintf(env.Stderr, "granary: %v\n", err)
		return CodeFailed
	}
}

// find prefers the longest name, so that `bench redis` is found before a possible `bench`.
func find(commands []Command, args []string) (Command, []string, bool) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, c := range commands {
			if c.Name == name {
				return c, args[words:], true
			}
		}
	}
	return Command{}, nil, false
}

func help(w io.Writer, commands []Command) {
	fmt.Fprintln(w, "granary runs programs under the Granary allocator and measures it against others.")
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands {
		fmt.Fprintf(tab, "  granary %s\t%s\n", strings.TrimSpace(c.Name+" "+c.Usage), c.Summary)
	}
	tab.Flush()
	fmt.Fprintln(w, "\n`granary COMMAND -h` lists the options of a command.")
}

// Flags makes a flag set that reports to env and never exits.
func Flags(env Env, name, usage string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(env.Stderr)
	fs.Usage = func() {
		fmt.Fprintf(env.Stderr, "usage: granary %s %s\n", name, usage)
		fs.PrintDefaults()
	}
	return fs
}

// Parse parses args; a wrong command line ends with code, its sentence already printed.
func Parse(fs *flag.FlagSet, args []string, code int) error {
	err := fs.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &ExitError{Code: code}
}
