package suite

import (
	"math"
	"time"
)

// A member is how far one scenario is, as far as planning goes.
type member struct {
	guess    float64 // seconds of a visit, as the suite's file says
	measured float64 // seconds of a visit, as seen; 0 before the first
	prepare  float64 // seconds until the first visit can begin; 0 once that is done
	visits   int     // of a round
	finished int     // rounds
	wanted   int     // rounds
	failed   bool
}

// pace is how many times slower this machine is than the suite's file says.
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

// choose picks the scenario whose turn it is: the one with the fewest rounds, the first of equals. Within
// the time left, a scenario's first round is always begun, and may take what the first rounds of the others
// leave over, or its share where they do not all fit; a later round is begun only if it fits. The bound is
// 0 when there is none. Nothing is chosen when nothing is left to do.
func choose(members []member, left time.Duration) (index int, bound time.Duration, ok bool) {
	p, index := pace(members), -1
	first := 0.0 // what all first rounds take that are still to come
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
