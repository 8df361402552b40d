package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/micro"
	"github.com/granary-allocator/granary/tool/internal/bench/readme"
	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/bench/services"
	"github.com/granary-allocator/granary/tool/internal/bench/suite"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/ctl"
	"github.com/granary-allocator/granary/tool/internal/deploy"
	"github.com/granary-allocator/granary/tool/internal/doctor"
	"github.com/granary-allocator/granary/tool/internal/exporter"
	"github.com/granary-allocator/granary/tool/internal/heapmap"
	"github.com/granary-allocator/granary/tool/internal/leaks"
	"github.com/granary-allocator/granary/tool/internal/model"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/ps"
	"github.com/granary-allocator/granary/tool/internal/size"
	"github.com/granary-allocator/granary/tool/internal/stats"
	"github.com/granary-allocator/granary/tool/internal/top"
	"github.com/granary-allocator/granary/tool/internal/why"

	"github.com/spf13/pflag"
)

// The headings of `granary help`.
const (
	groupRun   = "Run a program"
	groupServe = "Put services under Granary"
	groupLook  = "Inspect a process"
	groupModel = "Forecast memory"
	groupBench = "Compare allocators"
	groupSelf  = "This command"
)

// commands is the table that help, completion, manual pages and the reference page derive from.
func commands() []cli.Command {
	rows := []cli.Command{
		in(groupRun, preload.Row),
		in(groupServe, deploy.Commands[0]),
		in(groupServe, deploy.Commands[1]),
		in(groupServe, deploy.Commands[2]),
		in(groupLook, ps.Row),
		in(groupLook, stats.Row),
		in(groupLook, why.Row),
		in(groupLook, top.Row),
		in(groupLook, heapmap.Row),
		in(groupLook, profile.Row),
		in(groupLook, profile.View),
		in(groupLook, profile.Diff),
		in(groupLook, profile.Agent),
		in(groupLook, leaks.Row),
		in(groupLook, ctl.Row),
		in(groupLook, doctor.Row),
		in(groupLook, size.Row),
		in(groupLook, exporter.Row),
	}
	for _, row := range model.Commands {
		rows = append(rows, in(groupModel, row))
	}
	own := services.Plan
	own.Group = groupBench
	rows = append(rows, own)
	for _, s := range services.All {
		row := s.Command()
		row.Group = groupBench
		rows = append(rows, row)
	}
	rows = append(rows,
		cli.Command{Name: "bench micro", Usage: "[options]", Summary: "compare allocators with small programs of known shapes", Group: groupBench, Setup: micro.Setup},
	)
	for _, row := range slices.Concat([]cli.Command{suite.Command, readme.Command, readme.Publish}, report.Commands, allocators.Commands) {
		row.Group = groupBench
		rows = append(rows, row)
	}
	rows = append(rows,
		cli.Command{Name: "completion", Usage: "SHELL", Summary: "print the completion script of a shell", Group: groupSelf, Takes: cli.Words, Choices: cli.Shells,
			Examples: []cli.Example{
				{Line: "completion bash > /etc/bash_completion.d/granary", Does: "complete in every new bash"},
				{Line: "completion zsh > \"${fpath[1]}/_granary\"", Does: "complete in every new zsh"},
				{Line: "completion fish > ~/.config/fish/completions/granary.fish", Does: "complete in every new fish"},
			}, Setup: completion},
		cli.Command{Name: "man", Usage: "DIR", Summary: "write the manual pages into a folder", Group: groupSelf, Takes: cli.Files, Setup: manual,
			Examples: []cli.Example{{Line: "man /usr/local/share/man/man1", Does: "install them"}}},
		cli.Command{Name: "version", Summary: "print the version", Group: groupSelf, Setup: versionOf},
		cli.Command{Name: "help", Usage: "[COMMAND]", Summary: "print this list, or explain a command", Group: groupSelf},
	)
	return rows
}

// in lists the row under a heading.
func in(group string, row cli.Command) cli.Command {
	row.Group = group
	return row
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
