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

// Row is the command `granary why`.
var Row = cli.Command{
	Name: "why", Usage: "PID|NAME|CORE [options]", Takes: cli.PIDs,
	Summary: "explain the resident memory of a process: where it is, why, and what to do",
	About: `A waterfall from the bytes the program holds to the RSS that the kernel reports, which adds up: every
page in memory is counted once. Below it the three largest causes in words. Of a process under another
allocator it says what the kernel knows. Of a core file, which does not tell what was in memory, it
shows Granary's own account. The process must be yours, or you root; nothing runs in it.`,
	Examples: []cli.Example{
		{Line: "why 812", Does: "the waterfall and the causes"},
		{Line: "why redis-server", Does: "of the only process of that name"},
		{Line: "why core.812", Does: "what the heap of a process that has died held"},
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
		w.write(env.Stdout)
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

// barWidth is how many columns RSS takes.
const barWidth = 24

func (w Waterfall) write(out io.Writer) {
	fmt.Fprintf(out, "%s\n\n", w.Subject)
	level := int64(0)
	t := term.Table{Header: []string{"", " ", " ", "", ""}}
	for _, s := range w.Steps {
		before := level
		level += s.Bytes
		size, from, to := term.Signed(s.Bytes), min(before, level), max(before, level)
		if s.Sum {
			level = s.Bytes
			size, from, to = term.Bytes(uint64(max(0, s.Bytes))), 0, s.Bytes
		}
		if s.About {
			size = "about " + size
		}
		name := "  " + s.Name
		if s.Sum {
			name = "= " + s.Name
		}
		t.Rows = append(t.Rows, []string{name, size, w.share(s), w.bar(from, to), s.Note})
	}
	t.WriteBody(out, 0)
	if w.PID == 0 {
		fmt.Fprintln(out, "\nA core file does not tell which pages were in memory: this is Granary's own account.")
	} else {
		fmt.Fprintf(out, "\nThe kernel reports %s, %s; the sum is off by %.2f %%.\n", term.Bytes(w.Kernel), swap(w.Swap), 100*w.Error())
	}
	if len(w.Causes) > 0 {
		fmt.Fprint(out, "\nThe largest causes:\n")
	}
	for i, c := range w.Causes {
		fmt.Fprintf(out, "%d. %s (%s): %s.\n", i+1, titles[c.Key], term.Bytes(c.Bytes), c.What)
		if c.Do != "" {
			fmt.Fprintf(out, "   -> %s.\n", c.Do)
		}
	}
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
		return strings.Repeat(" ", min(left, barWidth-1)) + "|"
	}
	return strings.Repeat(" ", left) + strings.Repeat("#", right-left)
}
