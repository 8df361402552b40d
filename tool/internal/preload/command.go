package preload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"granary/tool/internal/cli"

	"golang.org/x/sys/unix"
)

// Exec replaces this process; unix.Exec outside tests.
type Exec func(path string, argv, environ []string) error

// Command is `granary run` with the real exec.
func Command(_ context.Context, env cli.Env, args []string) error {
	return Run(env, CurrentCredentials(), unix.Exec, args)
}

// Run starts the program that args name with libgranary.so in front. It returns only on failure, with
// the exit codes of env(1).
func Run(env cli.Env, caller Credentials, exec Exec, args []string) error {
	flags := cli.Flags(env, "run", "[--lib PATH] [--] CMD [ARG...]")
	lib := flags.String("lib", "", "the library to preload (default: libgranary.so beside this command, or installed)")
	if err := cli.Parse(flags, args, cli.CodeToolFailed); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return failed(errors.New("say which program to run: granary run [--] CMD [ARG...]"))
	}
	library, err := FindLibrary(*lib, env.Getenv("GRANARY_LIB"), env.Exe)
	if err != nil {
		return failed(err)
	}
	path, err := Resolve(flags.Arg(0), env.Getenv("PATH"))
	if err == nil {
		err = Check(path, library, caller, env.Getenv("PATH"))
	}
	if err == nil {
		err = exec(path, flags.Args(), Environ(env.Environ, library))
		err = fmt.Errorf("start %s: %w", path, err)
	}
	return failed(err)
}

func failed(err error) error {
	code := cli.CodeToolFailed
	switch {
	case errors.Is(err, ErrUnreachable):
	case errors.Is(err, fs.ErrNotExist):
		code = cli.CodeNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC):
		code = cli.CodeNotExecutable
	}
	return &cli.ExitError{Code: code, Err: err}
}
