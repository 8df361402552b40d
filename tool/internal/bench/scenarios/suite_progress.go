package scenarios

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/term"
)

// A progress shows the progress of the whole suite: as a bar on a terminal, else as one line for each
// step.
type progress struct {
	out   io.Writer
	width int // 0: not a terminal
	now   func() time.Time
	start time.Time
	// The name of the running pass, the forecast seconds of it and of the passes after it, its number of
	// steps, and the number of finished steps.
	label       string
	pass, after float64
	steps, done int
}

// begin announces the next pass.
func (p *progress) begin(label string, pass, after float64, steps int) {
	p.label, p.pass, p.after, p.steps, p.done = label, pass, after, steps, 0
}

// Step announces an allocator's run.
func (p *progress) Step(label string) {
	share := 1.0
	if p.steps > 0 {
		share = 1 - min(1, float64(p.done)/float64(p.steps))
	}
	p.done++
	elapsed := p.now().Sub(p.start)
	left := seconds(p.pass*share + p.after)
	// A pass is one round; the label of the suite contains its number.
	p.show(p.label+" "+strings.TrimPrefix(label, "round 1/1 "), elapsed, left)
}

func (p *progress) show(label string, elapsed, left time.Duration) {
	if p.width == 0 {
		percent := 0
		if elapsed+left > 0 {
			percent = int(100 * elapsed / (elapsed + left))
		}
		fmt.Fprintf(p.out, "%s (%d %% done, about %v left)\n", label, percent, left.Round(time.Second))
		return
	}
	// In seconds; the elapsed ones are what is done of them.
	done, total := int(elapsed.Seconds())+1, int((elapsed+left).Seconds())+1
	fmt.Fprintf(p.out, "\r\x1b[K%s", term.Bar(label, done, total, elapsed, p.width-1))
}

// Tick is not shown: a step is short.
func (p *progress) Tick(string) {}

// Drop is not needed: the forecast is made anew for each pass.
func (p *progress) Drop(int) {}

// close removes the bar.
func (p *progress) close() {
	if p.width > 0 {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
