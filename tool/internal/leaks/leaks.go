// Package leaks finds the stacks of a running program whose live bytes grow: it records the live bytes
// of each stack over time, and reports each growth with a confidence.
package leaks

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A Watch gathers readings of one process. All belong to the same run of sampling.
type Watch struct {
	readings []reading
	last     *inspect.Samples
}

type reading struct {
	at    time.Duration   // since sampling was switched on
	inUse map[int]float64 // bytes, by stack
	count map[int]float64 // samples
}

// Add takes a reading. It returns false, and begins anew, where sampling was started again in between.
func (w *Watch) Add(s *inspect.Samples) bool {
	same := w.last == nil || w.last.Generation == s.Generation
	if !same {
		w.readings = nil
	}
	w.last = s
	r := reading{at: s.For, inUse: map[int]float64{}, count: map[int]float64{}}
	for i, stack := range s.Stacks {
		if bytes := stack.InUse().Bytes; bytes > 0 {
			r.inUse[i] = bytes
		}
	}
	for _, sample := range s.Live {
		r.count[sample.Stack]++
	}
	w.readings = append(w.readings, r)
	return same
}

// Readings is the number of readings.
func (w *Watch) Readings() int { return len(w.readings) }

// A Suspect is a stack that has more and more in use.
type Suspect struct {
	Stack int // index into Samples.Stacks of the last reading
	// PerMinute is the growth of its live bytes per minute: the median of the slopes
	// between all pairs of readings. AtLeast is the lower end of a 99 % interval of this growth, or of
	// the part of the oldest allocations that stays, whichever is less. A leak raises both; objects that
	// live long raise only the first, and chance raises only one.
	PerMinute, AtLeast float64
	Confidence         float64 // that it grows at all, 0 to 1
	InUse              float64 // bytes
	Old                float64 // bytes of it that are older than OldAge
	MedianAge          time.Duration
}

const (
	// warmUp is the part of the watch that is not judged: after sampling is switched on, what is in
	// use grows for as long as objects live, with every stack.
	warmUp = 0.5
	// fewest is the number of samples that must appear and stay before a stack is a suspect.
	fewest = 5
	// oldest is the first part of the watch; allocations from this part that are still live at the end count as old.
	oldest = 0.25
	// bound is the quantile of the normal distribution that leaves half a percent above it.
	bound = 2.576
)

// Suspects are the stacks that grow, the most certain and fastest first.
func (w *Watch) Suspects() (out []Suspect) {
	if len(w.readings) < 3 {
		return nil
	}
	first, last := w.readings[0], w.readings[len(w.readings)-1]
	judged := w.judged()
	if len(judged) < 3 || last.at == judged[0].at {
		return nil
	}
	live := map[int][]inspect.Sample{}
	for _, sample := range w.last.Live {
		live[sample.Stack] = append(live[sample.Stack], sample)
	}
	for stack := range last.inUse {
		if s, ok := w.judge(stack, live[stack], judged, first.at); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(a.Stack, b.Stack))
	})
	return out
}

// Holders are the stacks with most in use at the last reading, for a watch that was too short to judge growth.
func (w *Watch) Holders() (out []Suspect) {
	if len(w.readings) == 0 {
		return nil
	}
	for stack, bytes := range w.readings[len(w.readings)-1].inUse {
		out = append(out, Suspect{Stack: stack, InUse: bytes})
	}
	slices.SortFunc(out, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(b.InUse, a.InUse), cmp.Compare(a.Stack, b.Stack))
	})
	return out
}

// judged are the readings after things have settled.
func (w *Watch) judged() []reading {
	first, last := w.readings[0], w.readings[len(w.readings)-1]
	begin := first.at + time.Duration(float64(last.at-first.at)*warmUp)
	return slices.DeleteFunc(slices.Clone(w.readings), func(r reading) bool { return r.at < begin })
}

// judge weighs one stack. Between the first and the last reading some samples came and stayed, and
// some of the first went. Both numbers are Poisson, so the variance of their difference is their sum:
// that is how far what is in use would wander if nothing leaked.
func (w *Watch) judge(stack int, live []inspect.Sample, judged []reading, start time.Duration) (Suspect, bool) {
	first, last := judged[0], judged[len(judged)-1]
	early := time.Duration(float64(last.at-start) * oldest)
	var stayed, squares float64
	var kept, keptSquares float64 // of what was allocated first
	var ages []time.Duration
	s := Suspect{Stack: stack, InUse: last.inUse[stack]}
	oldAge := w.OldAge()
	for _, sample := range live {
		bytes := sample.Objects * float64(sample.Bytes)
		age := last.at - sample.At
		ages = append(ages, age)
		if age > oldAge {
			s.Old += bytes
		}
		if sample.At >= start && sample.At < start+early {
			kept += bytes
			keptSquares += bytes * bytes
		}
		if sample.At > first.at {
			stayed++
			squares += bytes * bytes
		}
	}
	if stayed < fewest {
		return s, false
	}
	slices.Sort(ages)
	s.MedianAge = ages[len(ages)/2]
	went := max(0, first.count[stack]-(last.count[stack]-stayed))
	minutes := (last.at - first.at).Minutes()
	deviation := math.Sqrt(squares+went*squares/stayed) / minutes
	s.PerMinute = slope(judged, stack)
	s.AtLeast = min(s.PerMinute-bound*deviation, (kept-bound*math.Sqrt(keptSquares))/early.Minutes())
	s.Confidence = normal(s.PerMinute / deviation)
	return s, s.PerMinute > 0
}

// OldAge is the age at which an object is old: half of the observed time.
func (w *Watch) OldAge() time.Duration {
	if len(w.readings) == 0 {
		return 0
	}
	judged := w.judged()
	return (judged[len(judged)-1].at - judged[0].at) / 2
}

// slope is the Theil-Sen estimate, in bytes a minute: single peaks do not move it.
func slope(readings []reading, stack int) float64 {
	var slopes []float64
	for i, a := range readings {
		for _, b := range readings[i+1:] {
			if b.at > a.at {
				slopes = append(slopes, (b.inUse[stack]-a.inUse[stack])/(b.at-a.at).Minutes())
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
}

// normal is the distribution function of the standard normal.
func normal(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
