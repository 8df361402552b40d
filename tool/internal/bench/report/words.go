package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// effect is the difference that is worth another round.
const effect = 0.03

// Text returns the verdict in words.
func (v Verdict) Text() []string {
	best := v.Standings[0]
	var out []string
	var same, worse, missing []string
	var equals []result.Comparison
	for _, s := range v.Standings[1:] {
		switch {
		case s.Missing > 0:
			missing = append(missing, s.Allocator.Name)
		case s.ToBest.Differs():
			worse = append(worse, fmt.Sprintf("%s needs %s %s (%s)", s.Allocator.Name, more(s.ToBest.Ratio), v.Goal.Word, span(s.ToBest.Interval)))
		default:
			equals = append(equals, s.ToBest)
			same = append(same, s.Allocator.Name)
		}
	}
	title := fmt.Sprintf("%s over %s: ", v.Goal.Title, term.Counted(v.Rows, "row"))
	if len(same) > 0 {
		out = append(out, fmt.Sprintf("%sno difference shown between %s and %s; %s.", title, best.Allocator.Name, strings.Join(same, ", "), further(equals)))
	} else {
		out = append(out, title+best.Allocator.Name+".")
	}
	if len(worse) > 0 {
		out = append(out, strings.Join(worse, "; ")+".")
	}
	if len(missing) > 0 {
		out = append(out, "Not judged, as they did not finish: "+strings.Join(missing, ", ")+".")
	}
	return out
}

// Equals is the number of allocators that are not shown to be worse than the best.
func (v Verdict) Equals() int {
	n := 0
	for _, s := range v.Standings[1:] {
		if s.Missing == 0 && !s.ToBest.Differs() {
			n++
		}
	}
	return n
}

func more(ratio float64) string {
	if ratio >= 2 {
		return fmt.Sprintf("%.1f times the", ratio)
	}
	if ratio < 1 { // its geometric mean is lower although its medians are not
		return fmt.Sprintf("%.1f %% less", (1-ratio)*100)
	}
	return fmt.Sprintf("%.1f %% more", (ratio-1)*100)
}

// widest is the ratio above which an end of an interval is printed as unbounded.
const widestGap = 10

func unbounded(i result.Interval) bool { return i.High > widestGap }

func span(i result.Interval) string {
	switch {
	case unbounded(i):
		return fmt.Sprintf("%g %% interval from %.2f times on: too few rounds to bound it", result.Confidence*100, i.Low)
	case i.High >= 2:
		return fmt.Sprintf("%g %% interval %.2f to %.2f times", result.Confidence*100, i.Low, i.High)
	}
	return fmt.Sprintf("%g %% interval %+.1f to %+.1f %%", result.Confidence*100, (i.Low-1)*100, (i.High-1)*100)
}

// affordable is the maximum number of rounds that the advice proposes.
const affordable = 50

// further states how many rounds in total would show a difference between all of them.
func further(all []result.Comparison) string {
	most, rounds := 0, 0
	for _, c := range all {
		n, ok := c.RoundsToTell(effect)
		switch {
		case c.Rounds < 2:
			return "one round cannot show any: run at least five"
		case !ok || n > affordable:
			return fmt.Sprintf("the rounds differ too much to show a difference of %g %% on this machine", effect*100)
		}
		most, rounds = max(most, n), c.Rounds
	}
	if most <= rounds {
		return fmt.Sprintf("%s would have shown a difference of %g %%", term.Counted(rounds, "round"), effect*100)
	}
	return fmt.Sprintf("about %s in all would show a difference of %g %%", term.Counted(most, "round"), effect*100)
}

// A Pair is the ratio of two allocators' costs for a goal.
type Pair struct {
	Ratio  float64
	Differ bool
	Known  bool
}

// Text is the cell of the table of pairs.
func (p Pair) Text() string {
	if !p.Known || math.IsNaN(p.Ratio) {
		return "-"
	}
	text := fmt.Sprintf("%.3f", p.Ratio)
	if !p.Differ {
		return "≈" + text
	}
	return text
}
