// Package ctl controls a process that runs Granary from outside: it writes a request into the library's
// memory, waits for the answer, and reports the result.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/options"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// A verb is one row of the table of requests.
type verb struct {
	name, does string
	words      int // least arguments; -1: none are taken
	command    func(words []string) inspect.Command
	done       func(Outcome) string
	acts       func(ctx context.Context, env cli.Env, o settings, pid int) error // instead of a request to the library
}

var verbs = []verb{
	{name: "purge", does: "purge all free memory: return it to the kernel", words: -1,
		command: func([]string) inspect.Command { return inspect.Purge() },
		done: func(o Outcome) string {
			return fmt.Sprintf("purged %s; RSS: %s before, %s after", term.Bytes(o.Bytes), term.Bytes(o.Before), term.Bytes(o.After))
		}},
	{name: "flush", does: "empty the caches of all CPUs into the slabs", words: -1,
		command: func([]string) inspect.Command { return inspect.Flush() },
		done: func(o Outcome) string {
			return fmt.Sprintf("moved %s of free objects from the caches to the slabs", term.Bytes(o.Bytes))
		}},
	{name: "reset", does: "reset the peaks of its statistics, and the kernel's peak of its RSS", words: -1,
		command: func([]string) inspect.Command { return inspect.Reset() },
		done: func(o Outcome) string {
			if o.Kept != "" {
				return "reset the peaks of its figures; the kernel's peak of its RSS stays: " + o.Kept
			}
			return "reset its peaks"
		}},
	{name: "set", does: "change options, NAME:VALUE each", words: 1,
		command: func(words []string) inspect.Command { return inspect.Set(strings.Join(words, ",")) },
		done:    func(o Outcome) string { return "set " + strings.Join(o.Words, ", ") }},
	{name: "pageout", does: "page out live memory that is not accessed, to swap; as root", words: -1, acts: pageOut},
}

// Names are the verbs.
func Names() []string {
	var out []string
	for _, v := range verbs {
		out = append(out, v.name)
	}
	return out
}

// An Outcome is what came of a request. Sizes are bytes.
type Outcome struct {
	PID     int           `json:"pid"`
	Verb    string        `json:"verb"`
	Words   []string      `json:"words,omitempty"`
	Bytes   uint64        `json:"bytes"`
	Before  uint64        `json:"rss_before_bytes"`
	After   uint64        `json:"rss_after_bytes"`
	Waited  time.Duration `json:"waited_ns"`
	Kept    string        `json:"rss_peak_kept,omitempty"` // why the peak of RSS was not reset
	Message string        `json:"message"`
}

// Command is the command `granary ctl`.
var Command = cli.Command{
	Name: "ctl", Usage: "PID|NAME " + strings.Join(Names(), "|") + " [NAME:VALUE...] [options]", Takes: cli.PIDs, Choices: Names,
	Summary: "control a running process: purge memory, empty caches, change options",
	About:   about(),
	Examples: []cli.Example{
		{Line: "ctl 812 purge", Does: "purge free memory now"},
		{Line: "ctl 812 set dirty_decay_ms:200", Does: "purge free memory after a fifth of a second"},
		{Line: "ctl redis-server set hard_limit=2GiB", Does: "refuse allocations above 2 GiB"},
		{Line: "ctl 812 set dirty_decay_ms:-1 check_at_exit:false", Does: "two options in one call"},
		{Line: "ctl 812 reset", Does: "measure peaks from now on"},
		{Line: "ctl 812 pageout --older 30m", Does: "watch for half an hour, then page out memory without an access"},
		{Line: "ctl 812 pageout --older 1h --keep", Does: "continue with memory that becomes cold later"},
	},
	Exits: cli.Exits("done", "refused, or not answered in time (then it is done later)"),
	Setup: setup,
}

func about() string {
	text := "It writes a request into the library's memory and waits for the answer. A process with a background\nthread acts immediately; another one at its next slow path in malloc or free.\n"
	for _, v := range verbs {
		text += fmt.Sprintf("\n  %-7s %s", v.name, v.does)
	}
	return text
}

// settings are the options of the command.
type settings struct {
	json    bool
	timeout time.Duration
	older   time.Duration
	rate    string
	keep    bool
}

func setup(fs *pflag.FlagSet) cli.Action {
	var o settings
	fs.BoolVar(&o.json, "json", false, "print JSON; sizes are bytes")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Second, "wait this `duration` for the answer")
	fs.DurationVar(&o.older, "older", 10*time.Minute, "with pageout, page out memory without an access for this `duration`; the command first watches for that long")
	fs.StringVar(&o.rate, "rate", "64MiB", "with pageout, page out at most this `size` in a second")
	fs.BoolVar(&o.keep, "keep", false, "with pageout, continue until the process ends or you interrupt")
	return func(ctx context.Context, env cli.Env, args []string) error {
		if len(args) < 2 {
			return cli.Usagef("give the PID or the name of a process and one of %s", strings.Join(Names(), ", "))
		}
		pid, err := inspect.FindProcess(procfs.Live(), args[0])
		if err != nil {
			return err
		}
		if v, err := find(args[1], args[2:]); err == nil && v.acts != nil {
			return v.acts(ctx, env, o, pid)
		}
		done, err := Do(ctx, procfs.Live(), pid, args[1], args[2:], o.timeout)
		if err != nil {
			return err
		}
		if o.json {
			return term.JSON(env.Stdout, done)
		}
		term.Line(env.Stdout, "process %d %s (%v)", pid, done.Message, done.Waited.Round(time.Millisecond))
		return nil
	}
}

// Do asks process pid to do what verb and words say, and waits for the answer.
func Do(ctx context.Context, proc procfs.FS, pid int, name string, words []string, timeout time.Duration) (o Outcome, err error) {
	v, err := find(name, words)
	if err != nil {
		return o, err
	}
	target, err := inspect.OpenSubject(proc, fmt.Sprint(pid))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if words, err = normal(target.Target, words); err != nil {
		return o, err
	}
	o = Outcome{PID: pid, Verb: name, Words: words}
	if o.Before, err = rss(proc, pid); err != nil {
		return o, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ack, err := target.Request(ctx, v.command(words))
	if err != nil {
		return o, err
	}
	o.Bytes, o.Waited = ack.Bytes, ack.After
	if o.After, err = rss(proc, pid); err != nil {
		return o, err
	}
	if name == "reset" {
		if err := proc.ResetPeak(pid); err != nil {
			o.Kept = err.Error()
		}
	}
	o.Message = v.done(o)
	return o, nil
}

// normal are settings as the process takes them. Those that it would refuse are refused here, with the reason.
func normal(target *inspect.Target, settings []string) ([]string, error) {
	if len(settings) == 0 {
		return settings, nil
	}
	s, err := target.Snapshot()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, setting := range settings {
		row, err := options.Normal(s.Options, setting)
		if err != nil {
			return nil, cli.Usagef("%w; `granary stats %d --options` lists the options", err, target.PID)
		}
		out = append(out, row)
	}
	return out, nil
}

func find(name string, words []string) (verb, error) {
	for _, v := range verbs {
		switch {
		case v.name != name:
			continue
		case v.words < 0 && len(words) > 0:
			return v, cli.Usagef("%s takes no further words, not %q", name, words[0])
		case len(words) < v.words:
			return v, cli.Usagef("name the option to %s: NAME:VALUE, as in dirty_decay_ms:1000; `granary stats PID --options` lists the names", name)
		}
		return v, nil
	}
	return verb{}, cli.Usagef("there is no request %q: choose from %s", name, strings.Join(Names(), ", "))
}

func rss(proc procfs.FS, pid int) (uint64, error) {
	memory, err := proc.Memory(pid)
	if err != nil {
		return 0, proc.Explain(pid, err)
	}
	return memory.RSS, nil
}
