package trace

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Simulate is the command `granary simulate`.
var Simulate = cli.Command{
	Name: "simulate", Usage: "FILE [--set NAME=VALUE,VALUE...] [options]", Takes: cli.Files,
	Summary: "find the best setting of Granary for a trace, and its memory on other machines",
	About: `The calls of the trace are made in the library's own layers, over a machine that is simulated: pages, clock, CPUs. No
object is accessed, so this is much faster than the program, also for machines that you do not have. It simulates every
combination of the values of --set, with each of --classes. docs/guides/record-and-replay.md says what is not modelled.`,
	Examples: []cli.Example{
		{Line: "simulate trace.gtr", Does: "with the defaults, on this machine"},
		{Line: "simulate trace.gtr --set dirty_decay_ms=0,1000,10000 --goal rss", Does: "find the decay time for the least memory"},
		{Line: "simulate trace.gtr --classes fine,coarse", Does: "with the library's size classes, and with half as many"},
		{Line: "simulate trace.gtr --cpus 64 --nodes 4 --memory 128GiB", Does: "on a larger machine"},
	},
	Setup: setupSimulate,
}

type simulateOptions struct {
	sets, classes []string
	goal, memory  string
	machine       Machine
	programs      string
	asJSON        bool
}

func setupSimulate(fs *pflag.FlagSet) cli.Action {
	o := &simulateOptions{}
	fs.StringArrayVar(&o.sets, "set", nil, "an option of the library with the `NAME=VALUES` to try, separated by commas; may be repeated")
	fs.StringSliceVar(&o.classes, "classes", []string{classNames[0]}, "the size `classes` to try: fine (the library's), coarse (four to a doubling, as jemalloc's), or both")
	fs.StringVar(&o.goal, "goal", "rss", "what the chosen setting minimises: rss (the mean over time) or `speed`")
	fs.IntVar(&o.machine.CPUs, "cpus", runtime.NumCPU(), "the `number` of CPUs")
	fs.IntVar(&o.machine.Nodes, "nodes", 1, "the `number` of NUMA nodes, among which the CPUs are divided")
	fs.StringVar(&o.memory, "memory", "", "the `size` of the memory, a limit as of a cgroup; without it there is none")
	fs.StringVar(&o.programs, "programs", "", "the `folder` of the built program simulate (default: build/bench of the source tree)")
	fs.BoolVar(&o.asJSON, "json", false, "print JSON, also with RSS over time")
	return cli.Arguments(1, 1, "the file of a trace", func(ctx context.Context, env cli.Env, args []string) error {
		return o.run(ctx, env, args[0])
	})
}

// check reads what the flags say.
func (o *simulateOptions) check() error {
	if _, known := goals[o.goal]; !known {
		return cli.Usagef("--goal %s is unknown: give rss or speed", o.goal)
	}
	if o.machine.CPUs < 1 || o.machine.CPUs > 1024 {
		return cli.Usagef("--cpus %d: give 1 to 1024", o.machine.CPUs)
	}
	if o.machine.Nodes < 1 || o.machine.Nodes > min(64, o.machine.CPUs) {
		return cli.Usagef("--nodes %d: give 1 to 64, and no more than CPUs", o.machine.Nodes)
	}
	if o.memory != "" {
		bytes, err := cli.ParseSize(o.memory)
		if err != nil || bytes < 1<<20 || bytes > 1<<50 {
			return cli.Usagef("--memory %s: give a size from 1MiB on, such as 128GiB", o.memory)
		}
		o.machine.Memory = bytes
	}
	return nil
}

// Report is what the command prints with --json.
type Report struct {
	Trace         string        `json:"trace"`
	Length        time.Duration `json:"length_ns"`
	Sample        uint64        `json:"sample"`
	Machine       Machine       `json:"machine"`
	Goal          string        `json:"goal"`
	Chosen        string        `json:"chosen"` // for GRANARY_CONF; empty: the defaults
	ChosenClasses string        `json:"chosen_classes"`
	Results       []Result      `json:"results"`
	notes         []string
	took          time.Duration
}

func (o *simulateOptions) run(ctx context.Context, env cli.Env, path string) error {
	rows, err := settings(o.sets)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return err
	}
	variants, err := o.variants(rows, env.Exe)
	if err != nil {
		return err
	}
	t, err := Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	o.machine.HugePages = hugePages("/sys/kernel/mm/transparent_hugepage/enabled")
	report := Report{Trace: filepath.Base(path), Goal: o.goal, Machine: o.machine, Sample: max(1, t.Header.Sample)}
	start := time.Now()
	simulation := simulator{trace: t, machine: o.machine}
	if report.Results, err = simulation.all(ctx, variants); err != nil {
		return err
	}
	report.took, report.Length, report.notes = time.Since(start), simulation.length, replayLimits(t)
	chosen := report.Results[best(report.Results, o.goal)]
	report.Chosen, report.ChosenClasses = chosen.Setting, chosen.Classes
	if o.asJSON {
		return term.JSON(env.Stdout, report)
	}
	report.write(env.Stdout)
	return nil
}

// hugePages tells whether the kernel uses huge pages at all.
func hugePages(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && !strings.Contains(string(text), "[never]")
}
