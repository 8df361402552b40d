// Package cli turns a table of commands into a program: it finds the command's row, parses its flags,
// runs it, and maps its error to a message and an exit code. Help texts, shell completion, manual pages
// and the reference page are generated from the same rows.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/term"
)

// Env is the world a command works in; tests pass their own.
type Env struct {
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string
	Exe     string // path of this program; the library is beside it
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

// Getenv returns the value of an environment variable from e, or an empty string if it is not set.
func (e Env) Getenv(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(e.Environ[i], "="); key == name {
			return value
		}
	}
	return ""
}

// Message prints a line on stderr that begins with the program's name. A terminal gets it wrapped.
func (e Env) Message(text string) {
	const name = "granary: "
	if width, terminal := term.Width(e.Stderr); terminal {
		fmt.Fprintln(e.Stderr, term.Wrap(name, text, width))
		return
	}
	fmt.Fprintln(e.Stderr, name+text)
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

// Usagef returns an error about a wrong command line. The message is one line.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: CodeUsage, Err: fmt.Errorf(format, args...)}
}

// Exit codes: those of env(1) for `run`; 1 for a finding or a failure and 2 for a wrong command line
// everywhere else.
const (
	CodeFailed        = 1
	CodeUsage         = 2
	CodeToolFailed    = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

func finish(env Env, err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.Err != nil {
			env.Message(MessageOf(exit.Err))
		}
		return exit.Code
	default:
		env.Message(MessageOf(err))
		return CodeFailed
	}
}
