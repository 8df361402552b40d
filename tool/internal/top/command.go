package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/pflag"
)

// Command is the command `granary top`.
var Command = cli.Command{
	Name: "top", Usage: "[PID|NAME...] [options]", Takes: cli.PIDs,
	Summary: "watch processes and their heaps live",
	About: `The list shows every process with its live bytes, RSS, fragmentation ratio and allocator. Enter opens a
process: its RSS, heap and live bytes over time, rates, and the size classes with the most unused memory;
the key p shows the stacks that allocate most and those that grow. The key ? lists the keys.`,
	Examples: []cli.Example{
		{Line: "top", Does: "every process"},
		{Line: "top 812", Does: "open one process directly"},
		{Line: "top 812 --json | head -n 1", Does: "a line of JSON a sample, for a script"},
	},
	Setup: setup,
}

func setup(fs *pflag.FlagSet) cli.Action {
	interval := fs.Duration("interval", time.Second, "`duration` between two readings")
	asJSON := fs.Bool("json", false, "no screen: print a line of JSON for each reading, until interrupted")
	count := fs.Int("count", 0, "with --json, end after this `number` of readings")
	return func(ctx context.Context, env cli.Env, args []string) error {
		var pids []int
		for _, arg := range args {
			found, err := inspect.FindProcesses(procfs.Live(), arg)
			if err != nil {
				return err
			}
			pids = append(pids, found...)
		}
		if *interval < 10*time.Millisecond {
			return cli.Usagef("--interval must be 10ms or more")
		}
		dir, err := os.Getwd()
		if err != nil {
			dir = os.TempDir()
		}
		finder := func() *symbol.Finder {
			f := symbol.NewFinder(env.Getenv)
			f.FunctionsOnly = true
			return f
		}
		live := Live{Proc: procfs.Live(), PIDs: pids, Dir: dir, Profiler: &Profiler{Finder: finder}}
		if *asJSON {
			return stream(ctx, env, live, *interval, *count)
		}
		return show(ctx, env, live, *interval)
	}
}

func show(ctx context.Context, env cli.Env, live Live, interval time.Duration) (err error) {
	if _, terminal := term.Width(env.Stdout); !terminal {
		return errors.New("top needs a terminal; without one, use --json, or `granary ps`")
	}
	defer func() { err = errors.Join(err, live.EndProfile(0)) }()
	_, err = tea.NewProgram(New(live, interval, live.PIDs), tea.WithContext(ctx), tea.WithOutput(env.Stdout)).Run()
	if errors.Is(err, tea.ErrProgramKilled) {
		return nil // interrupted from outside
	}
	if err != nil {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// stream prints the processes, or the list of all, again and again.
func stream(ctx context.Context, env cli.Env, live Live, interval time.Duration, count int) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := 0; count == 0 || i < count; i++ {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
		if err := reading(ctx, env, live); err != nil {
			return err
		}
	}
	return nil
}

func reading(ctx context.Context, env cli.Env, live Live) error {
	if len(live.PIDs) == 0 {
		list, err := live.List(ctx)
		if err != nil {
			return err
		}
		return term.JSONLine(env.Stdout, list)
	}
	for _, pid := range live.PIDs {
		sample, err := live.Sample(ctx, pid)
		if err != nil {
			return err
		}
		if err := term.JSONLine(env.Stdout, sample); err != nil {
			return err
		}
	}
	return nil
}
