package why

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary why`.
var Command = cli.Command{
	Name: "why", Usage: "PID|NAME|CORE [options]", Takes: cli.PIDs,
	Summary: "explain the resident memory of a process, with remedies",
	About: `The summary names the largest cause and its remedy. The waterfall leads from the live bytes to
the RSS that the kernel reports: every resident page is in one row, and the rows add up. Below it are the
three largest causes with all remedies.

The fragmentation ratio is the memory of the heap for each live byte; 1.00 is the best. For a process
under another allocator the rows are what the kernel reports. For a core file, which does not tell what
was resident, they are Granary's own figures; what Granary wrote to stderr, such as a report of misuse,
comes first. A wide terminal shows a note beside each row. The process must be yours, or you must be root;
nothing runs in it.`,
	Examples: []cli.Example{
		{Line: "why 812", Does: "the largest cause, the waterfall, the remedies"},
		{Line: "why redis-server", Does: "of the only process of that name"},
		{Line: "why core.812", Does: "the heap of a dead process"},
		{Line: "why 812 --json | jq .causes", Does: "for a script"},
	},
	Setup: setup,
}

func setup(fs *pflag.FlagSet) cli.Action {
	asJSON := fs.Bool("json", false, "print JSON; sizes are bytes")
	return cli.Arguments(1, 1, inspect.SubjectUsage, func(_ context.Context, env cli.Env, args []string) error {
		w, err := read(args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return term.JSON(env.Stdout, w)
		}
		w.write(env.Stdout, term.TextWidth(env.Stdout))
		return nil
	})
}

func read(arg string) (Waterfall, error) {
	if inspect.IsCore(arg) {
		return explainCore(arg)
	}
	pid, err := inspect.ProcessOrCore(procfs.Live(), arg)
	if err != nil {
		return Waterfall{}, err
	}
	return Explain(procfs.Live(), pid)
}

// barWidth is the length of the bar of RSS, in columns.
const barWidth = 20

func (w Waterfall) write(out io.Writer, width int) {
	fmt.Fprintf(out, "%s\n\n", term.Wrap("", w.Subject, width))
	if w.Reports != "" {
		fmt.Fprint(out, "What Granary had written to stderr:\n\n")
		for line := range strings.SplitSeq(w.Reports, "\n") {
			text := strings.TrimLeft(line, " ")
			fmt.Fprintln(out, term.Wrap("  "+line[:len(line)-len(text)], text, width))
		}
		fmt.Fprintln(out)
	}
	if w.Summary != "" {
		fmt.Fprintf(out, "%s\n\n", term.Wrap("", w.Summary, width))
	}
	w.table().WriteBody(out, width)
	fmt.Fprintf(out, "\n%s\n", term.Wrap("", w.agreement(), width))
	if w.Fragmentation > 0 {
		fmt.Fprintln(out, term.Wrap("", fmt.Sprintf("Fragmentation ratio %.2f: %.2f bytes of memory for each live byte.", w.Fragmentation, w.Fragmentation), width))
	}
	if len(w.Causes) > 0 {
		fmt.Fprint(out, "\nThe largest causes:\n")
	}
	for i, c := range w.Causes {
		fmt.Fprintln(out, term.Wrap(fmt.Sprintf("%d. ", i+1), fmt.Sprintf("%s: %s.", w.heading(c), c.What), width))
		if c.Do != "" {
			fmt.Fprintln(out, term.Wrap("   -> ", c.Do+".", width))
		}
	}
}

// table has a row with a bar for each step; a bar begins where the one before ends.
func (w Waterfall) table() term.Table {
	level := int64(0)
	t := term.Table{Header: []string{"", " ", " ", "", ""}, Spare: []int{4}}
	for _, s := range w.Steps {
		before := level
		level += s.Bytes
		name, size, from, to := "  "+s.Name, term.Signed(s.Bytes), min(before, level), max(before, level)
		if s.Sum {
			level = s.Bytes
			name, size, from, to = "= "+s.Name, term.Bytes(uint64(max(0, s.Bytes))), 0, s.Bytes
		}
		if s.About {
			size = "about " + size
		}
		t.Rows = append(t.Rows, []string{name, size, w.share(s), w.bar(from, to), s.Note})
	}
	return t
}

// agreement compares the sum with the kernel's figure.
func (w Waterfall) agreement() string {
	if w.PID == 0 {
		return "A core file does not tell which pages were resident: these are Granary's own figures."
	}
	return fmt.Sprintf("The kernel reports %s, %s; the sum differs by %.2f %%.", term.Bytes(w.Kernel), swap(w.Swap), 100*w.Error())
}

// share is a step's part of RSS. A step larger than RSS, such as a block that was never touched, has none.
func (w Waterfall) share(s Step) string {
	if s.Bytes > int64(w.RSS) || -s.Bytes > int64(w.RSS) {
		return "-"
	}
	return term.Percent(float64(s.Bytes), float64(w.RSS))
}

func swap(bytes uint64) string {
	if bytes == 0 {
		return "nothing in swap"
	}
	return "and " + term.Bytes(bytes) + " in swap"
}

// bar marks [from, to) on a line as long as the largest sum.
func (w Waterfall) bar(from, to int64) string {
	widest := int64(1)
	for _, s := range w.Steps {
		if s.Sum {
			widest = max(widest, s.Bytes)
		}
	}
	column := func(bytes int64) int { return int((max(0, bytes)*barWidth + widest/2) / widest) }
	left, right := column(from), column(to)
	if right == left && to > from {
		return strings.Repeat(" ", min(left, barWidth-1)) + "▏"
	}
	return strings.Repeat(" ", left) + strings.Repeat("█", right-left)
}
