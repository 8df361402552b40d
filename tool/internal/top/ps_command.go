package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// ListProcesses is the command `granary ps`.
var ListProcesses = cli.Command{
	Name: "ps", Usage: "[PID|NAME...] [options]", Takes: cli.PIDs,
	Summary: "list processes with their allocator, heap and resident memory",
	About: `LIVE is the memory that the program allocated and has not freed, RATIO the fragmentation ratio:
memory of the heap for each live byte. Only Granary publishes both.

The allocator is the one whose malloc the process calls. HOW says how it got there: preloaded, linked,
part of the program (static), or the C library's own (system). HEAP is the resident part of the heap; for
other allocators than Granary it is the anonymous memory without stacks, which contains their heaps. PSS
divides shared pages among the processes that share them. A narrow terminal shows fewer columns.`,
	Examples: []cli.Example{
		{Line: "ps", Does: "every process you may read, the largest first"},
		{Line: "ps --allocator granary", Does: "only those that run under Granary; so does `granary` alone"},
		{Line: "ps --sort heap --json | jq '.processes[0]'", Does: "the largest heap, for a script"},
	},
	Exits: cli.Exits("fine", "a process that was named could not be read"),
	Setup: setupList,
}

type options struct {
	sort, allocator string
	json            bool
}

func setupList(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.StringVar(&o.sort, "sort", "rss", "`order`: "+strings.Join(Orders(), ", "))
	fs.StringVar(&o.allocator, "allocator", "", "only processes under the allocator of this `name`")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return func(ctx context.Context, env cli.Env, args []string) error { return o.run(ctx, env, args) }
}

func (o options) run(ctx context.Context, env cli.Env, args []string) error {
	var pids []int
	for _, arg := range args {
		found, err := inspect.FindProcesses(procfs.Live(), arg)
		if err != nil {
			return err
		}
		pids = append(pids, found...)
	}
	list, err := Read(ctx, procfs.Live(), pids)
	if err != nil {
		return err
	}
	if !list.Sort(o.sort) {
		return cli.Usagef("there is no order %q: choose from %s", o.sort, strings.Join(Orders(), ", "))
	}
	if o.allocator != "" {
		list.Only(o.allocator)
	}
	switch {
	case o.json:
		err = term.JSON(env.Stdout, list)
	case o.allocator == inspect.Granary && len(list.Processes) == 0:
		_, err = fmt.Fprintln(env.Stdout, noneYet)
	case o.allocator != "" && len(list.Processes) == 0:
		env.Message(fmt.Sprintf("no process that you may read runs under %q; `granary ps` names the allocators", o.allocator))
	default:
		width, _ := term.Width(env.Stdout)
		list.write(env.Stdout, width)
	}
	return finish(env, list, len(pids) > 0, err)
}

// noneYet is the text for a machine without Granary processes.
const noneYet = `No process that you may read runs under Granary.

  granary run -- COMMAND         start a program under it
  granary enable SERVICE         put a systemd service under it
  granary ps                     list all processes with their allocators
  granary help                   list the commands`

// finish names the requested processes that could not be read. Without requested processes it gives
// the number of unreadable ones.
func finish(env cli.Env, list List, named bool, err error) error {
	if err != nil || len(list.Unreadable) == 0 {
		return err
	}
	if !named {
		env.Message(fmt.Sprintf("left out %d that may not be read; for example, %s", len(list.Unreadable), list.Unreadable[0].Reason))
		return nil
	}
	var reasons []string
	for _, u := range list.Unreadable {
		reasons = append(reasons, u.Reason)
	}
	return errors.New(strings.Join(reasons, "\ngranary: "))
}

func (l List) write(w io.Writer, width int) {
	t := term.Table{Header: []string{" PID", "PROGRAM", " LIVE", " RSS", " RATIO", "ALLOCATOR", "VERSION", "HOW", " HEAP", " PSS", "COMMAND"},
		Spare: []int{9, 7, 8, 6, 10}}
	for _, p := range l.Processes {
		name := p.Allocator.Name
		if len(p.Allocator.Others) > 0 {
			name += " (+" + p.Allocator.Others[0].Name + ")"
		}
		t.Rows = append(t.Rows, []string{strconv.Itoa(p.PID), p.Program, p.LiveText(), term.Bytes(p.RSS), p.RatioText(),
			name, dash(p.Allocator.Version), dash(p.Allocator.How), term.Bytes(p.Heap), term.Bytes(p.PSS), p.Command})
	}
	t.Write(w, width)
}

// LiveText is the live bytes, or a dash where they are not known.
func (p Process) LiveText() string {
	if p.Live == 0 {
		return "-"
	}
	return term.Bytes(p.Live)
}

// RatioText is the fragmentation ratio, or a dash where it is not known.
func (p Process) RatioText() string {
	if p.Fragmentation == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", p.Fragmentation)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
