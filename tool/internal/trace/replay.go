package trace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/micro"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// Replay is the command `granary replay`.
var Replay = cli.Command{
	Name: "replay", Usage: "FILE [--allocators NAMES] [options]", Takes: cli.Files,
	Summary: "repeat a trace under every allocator and compare them",
	About: `The calls of the trace are repeated by as many threads as the program had, in the recorded order wherever
threads share an object, and the objects are written to. Statistics and report are those of ` + "`granary bench`" + `.
docs/guides/record-and-replay.md says how faithful a replay is.`,
	Examples: []cli.Example{
		{Line: "replay trace.gtr", Does: "under every allocator found, at full speed"},
		{Line: "replay trace.gtr --allocators glibc,granary,granary:dirty_decay_ms=100", Does: "under some of them"},
		{Line: "replay trace.gtr --paced --out results", Does: "in recorded time, with a report"},
	},
	Setup: setupReplay,
}

type replayOptions struct {
	measure.Options
	programs, touch string
	paced           bool
}

// replayRounds is as many in a quick run: a trace has one length.
var replayRounds = measure.Rounds{Full: 3, Quick: 3}

// touches are the values of --touch, as the program numbers them.
var touches = []string{"nothing", "pages", "all"}

func setupReplay(fs *pflag.FlagSet) cli.Action {
	o := &replayOptions{}
	o.Register(fs, replayRounds)
	fs.StringVar(&o.programs, "programs", "", "the `folder` of the built program replay (default: build/bench of the source tree)")
	fs.StringVar(&o.touch, "touch", "pages", "the bytes `written` into each object: nothing, one byte of each page, all, or a size as in 1MiB: one byte of each page up to there")
	fs.BoolVar(&o.paced, "paced", false, "keep the recorded time between calls, instead of full speed")
	return cli.Arguments(1, 1, "the file of a trace", func(ctx context.Context, env cli.Env, args []string) error {
		return measure.Ended(o.run(ctx, env, args[0]))
	})
}

func (o *replayOptions) run(ctx context.Context, env cli.Env, path string) error {
	args, err := o.touched()
	if err != nil {
		return err
	}
	if err := o.Check(replayRounds); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "granary-replay-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	plan := filepath.Join(dir, "plan")
	note, err := writePlanFile(plan, path)
	if err != nil {
		return err
	}
	args = append(args, "plan="+plan)
	if o.paced {
		args = append(args, "paced=1")
	}
	settings := map[string]any{"trace": filepath.Base(path), "touch": o.touch, "paced": o.paced}
	x, err := micro.OpenSuite(ctx, env, o.Options, micro.Spec{Scenario: "replay", Suite: suite(args, o.paced), Programs: o.programs, Settings: settings, Notes: note})
	if err != nil {
		return err
	}
	defer x.Close()
	return x.Run(ctx, 0)
}

// touched are the program's arguments for --touch.
func (o *replayOptions) touched() ([]string, error) {
	if i := slices.Index(touches, o.touch); i >= 0 {
		return []string{fmt.Sprintf("touch=%d", i)}, nil
	}
	first, err := cli.ParseSize(o.touch)
	if err != nil || first == 0 {
		return nil, cli.Usagef("--touch %s is unknown: give nothing, pages, all or a size as in 16KiB", o.touch)
	}
	return []string{fmt.Sprintf("touch=%d", slices.Index(touches, "pages")), fmt.Sprintf("first=%d", first)}, nil
}

// writePlanFile returns what the user must know of the trace.
func writePlanFile(plan, path string) ([]string, error) {
	t, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	file, err := os.Create(plan)
	if err != nil {
		return nil, fmt.Errorf("make the plan: %w", err)
	}
	defer file.Close()
	if _, err := WritePlan(file, t); err != nil {
		return nil, err
	}
	return replayLimits(t), nil
}

// replayLimits are what the user must know of a trace whose events have been read.
func replayLimits(t *Trace) []string {
	var notes []string
	if t.Header.Sample > 1 {
		notes = append(notes, fmt.Sprintf("The trace has one object in %d, so memory and time are as much smaller than the program's.", t.Header.Sample))
	}
	for _, damage := range t.Findings.Damage {
		notes = append(notes, "The trace is damaged: "+damage+".")
	}
	return notes
}

// suite is the program with what it prints.
func suite(args []string, paced bool) micro.Suite {
	no := false
	p := micro.Program{Name: "replay", Args: args, Quick: args, RSS: &no, Metrics: []micro.Metric{
		{Name: "RSS, peak", Unit: "MiB", Better: result.Lower},
		{Name: "RSS, mean", Unit: "MiB", Better: result.Lower},
		{Name: "RSS, end", Unit: "MiB", Better: result.Lower},
	}}
	if paced {
		p.Time = &no // it is the recorded one
	} else {
		p.Metrics = append([]micro.Metric{{Name: "replay", Unit: "s", Better: result.Lower}}, p.Metrics...)
	}
	return micro.Suite{Programs: []micro.Program{p}}
}
