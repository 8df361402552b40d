package trace

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/term"
)

func (r Report) write(w io.Writer) {
	width, _ := term.Width(w)
	m := r.Machine
	machine := term.Counted(m.CPUs, "CPU")
	if m.Nodes > 1 {
		machine += ", " + term.Counted(m.Nodes, "node")
	}
	if m.Memory > 0 {
		machine += ", " + term.Bytes(m.Memory) + " of memory"
	}
	first := r.Results[0]
	term.Line(w, "%s: %s calls in %s, peak of live bytes %s.", r.Trace,
		term.Count(first.Allocations+first.Frees), term.Duration(r.Length), term.Bytes(first.LivePeak))
	term.Line(w, "Simulated %s on %s in %s, %s.", term.Counted(len(r.Results), "setting"), machine, term.Duration(r.took), r.speed())
	for _, note := range r.notes {
		term.Line(w, "%s", note)
	}
	fmt.Fprintln(w)
	r.memory(w, width)
	fmt.Fprintln(w)
	r.work(w, width)
	fmt.Fprintln(w)
	r.advice(w)
}

// speed is how long the program takes for what was simulated in a second.
func (r Report) speed() string {
	times := float64(r.Length) * float64(len(r.Results)) / float64(max(1, r.took))
	if times < 9.5 {
		return fmt.Sprintf("%.1f times as fast as the program", times)
	}
	return fmt.Sprintf("%.0f times as fast as the program", times)
}

// memory is the table of what each setting keeps resident.
func (r Report) memory(w io.Writer, width int) {
	t := term.Table{Header: []string{" PEAK RSS", " MEAN RSS", " END RSS", " PEAK/LIVE", "SETTING"}, Fold: true}
	if r.Machine.Nodes > 1 {
		t.Header = append([]string{" REMOTE"}, t.Header...)
	}
	for _, x := range r.Results {
		row := []string{term.Bytes(x.PeakRSS), term.Bytes(x.MeanRSS), term.Bytes(x.EndRSS), fmt.Sprintf("%.3f", x.Fragmentation()), named(x)}
		if r.Machine.Nodes > 1 {
			row = append([]string{term.Percent(float64(x.Remote), float64(x.Placed))}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Write(w, width)
}

// work is the table of what each setting costs.
func (r Report) work(w io.Writer, width int) {
	t := term.Table{Header: []string{" MISSES", " FAULTS", " HUGE", " PURGED", " REFAULTED", " CALLS", " COST", "SETTING"}, Spare: []int{2, 3}, Fold: true}
	for _, x := range r.Results {
		t.Rows = append(t.Rows, []string{term.Percent(float64(x.Misses), float64(x.Allocations)), term.Count(x.Faults), term.Count(x.HugeFaults),
			term.Count(x.Purged), term.Count(x.Refaulted), term.Count(x.Calls()), term.Duration(x.Cost()), named(x)})
	}
	t.Write(w, width)
}

func (r Report) advice(w io.Writer) {
	for _, x := range r.Results {
		if x.Refused > 0 {
			term.Line(w, "With %s, %s allocations are refused.", named(x), term.Count(x.Refused))
		}
		if r.Machine.Memory > 0 && x.PeakRSS > r.Machine.Memory {
			term.Line(w, "With %s, the peak exceeds the machine's memory: the kernel would end the program.", named(x))
		}
	}
	if len(r.Results) == 1 {
		return
	}
	goal := "the least memory over time"
	if r.Goal == "speed" {
		goal = "the least cost"
	}
	if r.Chosen == "" {
		term.Line(w, "For %s: the defaults, without GRANARY_CONF.", goal)
	} else {
		term.Line(w, "For %s:", goal)
		fmt.Fprintf(w, "GRANARY_CONF=%s\n", r.Chosen)
	}
	if r.ChosenClasses != classNames[0] {
		term.Line(w, "with %s size classes, which a library has only if it is built with them.", r.ChosenClasses)
	}
}

func named(r Result) string {
	setting := cmp.Or(strings.ReplaceAll(r.Setting, ",", ", "), "the defaults")
	if r.Classes == classNames[0] {
		return setting
	}
	return setting + "; " + r.Classes + " classes"
}
