package preload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// Exec replaces this process; unix.Exec outside tests.
type Exec func(path string, argv, environ []string) error

// Exits are the exit codes of commands that run a program: those of env(1).
var Exits = []cli.Exit{
	{Code: cli.CodeToolFailed, Meaning: "granary itself failed, or the command line is wrong"},
	{Code: cli.CodeNotExecutable, Meaning: "the program cannot be executed"},
	{Code: cli.CodeNotFound, Meaning: "the program was not found; every other code is the program's own"},
}

// Command is the command `granary run`.
var Command = cli.Command{
	Name: "run", Usage: "[--lib PATH] [--hardened] [--] CMD [ARG...]", Takes: cli.Programs,
	Summary: "run a program under Granary",
	About: `It puts libgranary.so first in LD_PRELOAD and becomes the program. If the program cannot be preloaded,
because it is static, setuid or built for another machine, it prints the reason and starts nothing.`,
	Examples: []cli.Example{
		{Line: "run -- redis-server --port 7000", Does: "a server"},
		{Line: "run --hardened -- ./server", Does: "with every malloc and free checked"},
		{Line: "run --lib ./libgranary.so ./app", Does: "with a library of your own build"},
	},
	Exits:     Exits,
	WrongCode: cli.CodeToolFailed,
	Setup: func(fs *pflag.FlagSet) cli.Action {
		return setup(fs, CurrentCredentials(), unix.Exec)
	},
}

func setup(fs *pflag.FlagSet, caller Credentials, exec Exec) cli.Action {
	fs.SetInterspersed(false) // options after the program are the program's
	lib := fs.String("lib", "", "the `library` to preload (default: libgranary.so beside this command, or installed)")
	hardened := fs.Bool("hardened", false, "set the option hardened: find writes beyond objects and after free, at a cost")
	return func(_ context.Context, env cli.Env, args []string) error {
		if *hardened {
			env.Environ = WithOption(env.Environ, "hardened:true")
		}
		return Run(env, caller, exec, *lib, args)
	}
}

// Run starts the program that args name with libgranary.so in front. It returns only on failure, with
// the exit codes of env(1).
func Run(env cli.Env, caller Credentials, exec Exec, lib string, args []string) error {
	if len(args) == 0 {
		return Failed(errors.New("say which program to run: granary run [--] CMD [ARG...]"))
	}
	library, err := Library(lib, env.Getenv("GRANARY_LIB"), env.Exe)
	if err != nil {
		return Failed(err)
	}
	path, err := Resolve(args[0], env.Getenv("PATH"))
	if err == nil {
		err = Check(path, library, caller, env.Getenv("PATH"))
	}
	if err == nil {
		err = exec(path, args, Environ(env.Environ, library))
		err = fmt.Errorf("start %s: %w", path, err)
	}
	return Failed(err)
}

// Failed gives err the exit code of env(1).
func Failed(err error) error {
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
