package heap

import (
	"context"
	"errors"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Stats is the command `granary stats`.
var Stats = cli.Command{
	Name: "stats", Usage: "PID|NAME|CORE [options]", Takes: cli.PIDs,
	Summary: "show all statistics of a process that runs Granary",
	About: `The statistics are read from the memory of a running or stopped process, or from a core file; nothing
runs in the process. docs/reference/counters.md lists them. The process must be yours, or you must
be root.

UNUSED is the memory of a size class that is not live, CLEAN the part of its slabs that is not resident.
A narrow terminal shows fewer columns.`,
	Examples: []cli.Example{
		{Line: "stats 812", Does: "the totals of each layer"},
		{Line: "stats 812 --classes", Does: "and every size class, the most unused memory first"},
		{Line: "stats core.812", Does: "of a process that has died"},
		{Line: "stats 812 --options", Does: "and the options in effect"},
		{Line: "stats 812 --json | jq '.metrics[] | select(.name == \"live\").value'", Does: "one figure, for a script"},
	},
	Setup: setupStats,
}

func setupStats(fs *pflag.FlagSet) cli.Action {
	var v View
	fs.BoolVar(&v.Classes, "classes", false, "also every size class that was used")
	fs.BoolVar(&v.Caches, "caches", false, "also every cache")
	fs.BoolVar(&v.Locks, "locks", false, "also every lock")
	fs.BoolVar(&v.Options, "options", false, "also the options in effect")
	asJSON := fs.Bool("json", false, "print everything as JSON")
	return cli.Arguments(1, 1, inspect.SubjectUsage, func(_ context.Context, env cli.Env, args []string) (err error) {
		s, err := inspect.OpenSubject(procfs.Live(), args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		snapshot, err := s.Snapshot()
		if err != nil {
			return err
		}
		r := Report{Snapshot: snapshot}
		if s.PID != 0 {
			memory, err := procfs.Live().Memory(s.PID)
			if err != nil {
				return procfs.Live().Explain(s.PID, err)
			}
			r.Process = &Process{memory.RSS, memory.Peak}
		}
		if *asJSON {
			return term.JSON(env.Stdout, r)
		}
		Write(env.Stdout, s.Title, r, v, term.TextWidth(env.Stdout))
		return nil
	})
}
