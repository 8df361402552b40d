// Package term writes output for a terminal: tables, sizes, numbers, JSON and a progress bar.
package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Width is the number of columns of w when it is a terminal.
func Width(w io.Writer) (columns int, terminal bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 {
		columns = 80
	}
	return columns, true
}

// A Progress reports work that consists of a known number of parts: as a bar with the remaining time
// on a terminal, else as a line a step.
type Progress struct {
	out   io.Writer
	width int // 0: not a terminal
	now   func() time.Time
	start time.Time
	total int
	done  int
}

// NewProgress starts the clock of total parts.
func NewProgress(out io.Writer, now func() time.Time, total int) *Progress {
	width, _ := Width(out)
	return &Progress{out: out, width: width, now: now, start: now(), total: total}
}

// Step announces a step.
func (p *Progress) Step(label string) {
	if p.width == 0 {
		fmt.Fprintf(p.out, "%s\n", Status(label, p.done, p.total, p.now().Sub(p.start)))
		return
	}
	p.draw(label)
}

// Tick marks one part as done.
func (p *Progress) Tick(label string) {
	p.done++
	if p.width > 0 {
		p.draw(label)
	}
}

// Drop subtracts skipped parts from the total.
func (p *Progress) Drop(parts int) { p.total -= parts }

// Close removes the bar.
func (p *Progress) Close() {
	if p.width > 0 {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *Progress) draw(label string) {
	fmt.Fprintf(p.out, "\r\x1b[K%s", Bar(label, p.done, p.total, p.now().Sub(p.start), p.width-1))
}

// Remaining extrapolates the remaining time from the time of the finished parts; false before the first.
func Remaining(done, total int, elapsed time.Duration) (time.Duration, bool) {
	if done <= 0 || total <= 0 {
		return 0, false
	}
	left := float64(elapsed) / float64(done) * float64(max(0, total-done))
	return time.Duration(left).Round(time.Second), true
}

// Status is the progress as words.
func Status(label string, done, total int, elapsed time.Duration) string {
	left := "time left unknown"
	if d, ok := Remaining(done, total, elapsed); ok {
		left = fmt.Sprintf("%v left", d)
	}
	return fmt.Sprintf("%s (%d %% done, %s)", label, percent(done, total), left)
}

// Bar is the progress as one line of at most width columns.
func Bar(label string, done, total int, elapsed time.Duration, width int) string {
	status := fmt.Sprintf(" %3d %%", percent(done, total))
	if d, ok := Remaining(done, total, elapsed); ok {
		status += fmt.Sprintf("  %v left", d)
	}
	status += "  " + label
	cells := min(30, width-len(status)-2)
	if cells < 5 {
		return status[:max(0, min(len(status), width))]
	}
	full := cells * percent(done, total) / 100
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "]" + status
}

func percent(done, total int) int {
	if total <= 0 {
		return 0
	}
	return max(0, min(100, 100*done/total))
}
