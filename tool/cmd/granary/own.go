package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// own are the commands about the command itself.
func own() []cli.Command {
	return []cli.Command{
		{Name: "completion", Usage: "SHELL", Summary: "print the completion script of a shell", Takes: cli.Words, Choices: func() []string { return cli.Shells },
			Examples: []cli.Example{
				{Line: "completion bash > /etc/bash_completion.d/granary", Does: "complete in every new bash"},
				{Line: "completion zsh > \"${fpath[1]}/_granary\"", Does: "complete in every new zsh"},
				{Line: "completion fish > ~/.config/fish/completions/granary.fish", Does: "complete in every new fish"},
			}, Setup: completion},
		{Name: "man", Usage: "DIR", Summary: "write the manual pages into a folder", Takes: cli.Files, Setup: manual,
			Examples: []cli.Example{{Line: "man /usr/local/share/man/man1", Does: "install them"}}},
		{Name: "version", Summary: "print the version", Setup: versionOf},
		{Name: "help", Usage: "[COMMAND]", Summary: "print this list, or explain a command"},
	}
}

func versionOf(*pflag.FlagSet) cli.Action {
	return cli.Arguments(0, 0, "no argument", func(_ context.Context, env cli.Env, _ []string) error {
		_, err := fmt.Fprintf(env.Stdout, "granary %s\n", env.Version)
		return err
	})
}

func completion(*pflag.FlagSet) cli.Action {
	return cli.Arguments(1, 1, "the name of a shell: bash, zsh or fish", func(_ context.Context, env cli.Env, args []string) error {
		return cli.Completion(env.Stdout, commands(), args[0])
	})
}

func manual(*pflag.FlagSet) cli.Action {
	return cli.Arguments(1, 1, "the folder that the manual pages go to", func(_ context.Context, env cli.Env, args []string) error {
		return cli.Manuals(args[0], env.Version, built(env), commands())
	})
}

// built is the moment in SOURCE_DATE_EPOCH, else that of the program's file, so that the same build
// writes the same pages.
func built(env cli.Env) time.Time {
	if seconds, err := strconv.ParseInt(env.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC()
	}
	if info, err := os.Stat(env.Exe); err == nil {
		return info.ModTime().UTC()
	}
	return time.Unix(0, 0).UTC()
}
