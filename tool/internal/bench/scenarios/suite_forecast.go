package scenarios

import (
	"math"
	"time"
)

// A member is the progress of one scenario, as the planning needs it.
type member struct {
	guess    float64 // seconds of a visit, from the suite's file
	measured float64 // mean seconds of a visit; 0 before the first
	prepare  float64 // seconds until the first visit can begin; 0 once that is done
	visits   int     // of a round
	finished int     // rounds
	wanted   int     // rounds
	failed   bool
}

// pace is the ratio of the measured time to the forecast of the suite file.
func pace(members []member) float64 {
	seen, guessed := 0.0, 0.0
	for _, m := range members {
		if m.measured > 0 {
			seen, guessed = seen+m.measured, guessed+m.guess
		}
	}
	if guessed == 0 {
		return 1
	}
	return seen / guessed
}

// visit is the seconds that a visit will take.
func (m member) visit(pace float64) float64 {
	if m.measured > 0 {
		return m.measured
	}
	return m.guess * pace
}

// round is the seconds that the next round will take.
func (m member) round(pace float64) float64 { return m.visit(pace)*float64(m.visits) + m.prepare }

func (m member) open() bool { return !m.failed && m.finished < m.wanted }

// remaining is the seconds that all wanted rounds will take.
func remaining(members []member) float64 {
	p, sum := pace(members), 0.0
	for _, m := range members {
		if m.open() {
			sum += m.visit(p)*float64(m.visits*(m.wanted-m.finished)) + m.prepare
		}
	}
	return sum
}

// unbounded is the time left of a run without a budget.
const unbounded = time.Duration(math.MaxInt64)

// choose returns the next scenario: the one with the fewest rounds, the first of equals. While time is
// left, a scenario's first round always starts. Its bound is the time that the first rounds of the others
// leave, or its share of the time if they do not all fit. A later round starts only if it fits. A bound of
// 0 is no bound. choose returns no scenario if all rounds are finished.
func choose(members []member, left time.Duration) (index int, bound time.Duration, ok bool) {
	p, index := pace(members), -1
	first := 0.0 // the time of all remaining first rounds
	for _, m := range members {
		if m.open() && m.finished == 0 {
			first += m.round(p)
		}
	}
	for i, m := range members {
		if !m.open() || index >= 0 && members[index].finished <= m.finished {
			continue
		}
		if left == unbounded || m.finished == 0 && left > 0 || m.round(p) <= left.Seconds() {
			index = i
		}
	}
	if index < 0 {
		return 0, 0, false
	}
	switch own := members[index].round(p); {
	case left == unbounded:
		return index, 0, true
	case members[index].finished > 0:
		return index, left, true
	case first <= left.Seconds():
		return index, left - seconds(first-own), true
	default:
		return index, seconds(left.Seconds() * own / first), true
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
