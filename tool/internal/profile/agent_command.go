package profile

import (
	"context"
	"log"
	"regexp"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/push"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// Agent is the command `granary profile agent`.
var Agent = cli.Command{
	Name: "profile agent", Usage: "--push URL [options]",
	Summary: "send heap profiles of all Granary processes to Pyroscope, Parca or OTLP",
	About: `Sampling is switched on in every process that runs Granary and that it may read and write, and off again
when it ends. Each round sends what is in use and what was allocated since the last. Its own cost is bounded: beyond
--cpu-share rounds come less often, and a profile holds --max-stacks stacks, about 100 bytes each. In the
processes it costs what sampling costs. It needs CAP_SYS_PTRACE for processes of other users.`,
	Examples: []cli.Example{
		{Line: "profile agent --push http://localhost:4040", Does: "to Pyroscope, once a minute"},
		{Line: "profile agent --push http://localhost:7070 --protocol parca", Does: "to Parca"},
		{Line: "profile agent --push http://localhost:4317 --protocol otlp", Does: "to an OpenTelemetry collector"},
		{Line: "profile agent --push https://example.com --headers /etc/headers", Does: "with a token, kept out of the list of processes"},
	},
	Setup: agentSetup,
}

type agentOptions struct {
	AgentConfig
	push          push.Options
	rate, command string
}

func agentSetup(fs *pflag.FlagSet) cli.Action {
	var o agentOptions
	o.push.Flags(fs, PushProtocols, "http://localhost:4040")
	fs.DurationVar(&o.Every, "every", time.Minute, "`duration` between two rounds")
	fs.StringVar(&o.rate, "rate", "512KiB", "mean `distance` between samples")
	fs.StringVar(&o.command, "command", "", "only processes whose name matches this regular `expression`")
	fs.IntVar(&o.Processes, "max-processes", 100, "profile at most this `number` of processes")
	fs.IntVar(&o.Stacks, "max-stacks", 5000, "send at most this `number` of stacks of a process; the rest is added up")
	fs.Float64Var(&o.CPUShare, "cpu-share", 0.02, "use at most this `share` of one CPU")
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		a, err := o.agent(env)
		if err != nil {
			return err
		}
		a.Log.Printf("sending to %s every %v", o.push.URL, o.Every)
		return a.Run(ctx)
	})
}

func (o agentOptions) agent(env cli.Env) (*Collector, error) {
	var err error
	if o.Rate, err = Rate(o.rate); err != nil {
		return nil, err
	}
	switch {
	case o.push.URL == "":
		return nil, cli.Usagef("give the server to send the profiles to, as in --push http://localhost:4040")
	case o.Every < time.Second || o.Processes < 1 || o.Stacks < 1:
		return nil, cli.Usagef("--every must be 1s or more, --max-processes and --max-stacks above zero")
	case o.CPUShare <= 0 || o.CPUShare > 1:
		return nil, cli.Usagef("--cpu-share must be above 0 and at most 1")
	}
	if o.Labels, err = o.push.Labels(); err != nil {
		return nil, err
	}
	header, err := o.push.Header()
	if err != nil {
		return nil, err
	}
	server, err := NewPushServer(o.push.Protocol, o.push.URL, header)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	discover, err := o.discover(procfs.Live())
	if err != nil {
		return nil, err
	}
	builds := symbol.NewBuilds()
	return &Collector{
		AgentConfig: o.AgentConfig, Proc: procfs.Live(), Discover: discover, Send: server.Send,
		Finder: func() *symbol.Finder {
			f := symbol.NewFinder(env.Getenv)
			f.FunctionsOnly, f.Builds = true, builds
			return f
		},
		Log: log.New(env.Stderr, "granary profile agent: ", 0), CPU: used,
	}, nil
}

// discover finds the processes whose names match.
func (o agentOptions) discover(proc procfs.FS) (func(int) ([]int, int, error), error) {
	match, err := regexp.Compile(o.command)
	if err != nil {
		return nil, cli.Usagef("--command: %w", err)
	}
	found := inspect.NewDiscovery(proc, inspect.OpenLive, time.Now)
	found.Commands = match
	return func(limit int) (pids []int, more int, err error) {
		all, more, err := found.Find(nil, limit)
		for _, f := range all {
			pids = append(pids, f.PID)
		}
		return pids, more, err
	}, nil
}

// used is the CPU time of this process.
func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
