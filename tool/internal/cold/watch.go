package cold

import (
	"context"
	"time"
)

// maxShare is the part of the watch that samples may take.
const maxShare = 0.01

// maxIntervals is less than Ages can tell apart.
const maxIntervals = 200

// A clock tells the time since its start, and waits.
type clock interface {
	now() time.Duration
	until(ctx context.Context, end time.Duration) error
}

type realClock struct{ start time.Time }

func (c realClock) now() time.Duration { return time.Since(c.start) }

func (c realClock) until(ctx context.Context, end time.Duration) error {
	timer := time.NewTimer(end - c.now())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// A watch divides a length of time into intervals.
type watch struct {
	source    Source
	ranges    []Range
	page      uint64 // bytes
	length    time.Duration
	intervals int
	clock     clock
	cost      Cost
}

// run watches the process. If samples would take more than maxShare of the time, it lengthens the intervals, and the
// watch ends later.
func (w *watch) run(ctx context.Context) (*Ages, error) {
	ages := newAges(w.ranges, w.page)
	took, err := w.sample(func(Range, bool) {})
	if err != nil {
		return nil, err
	}
	for begin := w.clock.now(); ; {
		next := max(w.length/time.Duration(w.intervals), time.Duration(float64(took)/maxShare))
		if err := w.clock.until(ctx, begin+ages.Length()+next); err != nil {
			return nil, err
		}
		visit := ages.end(w.clock.now() - begin)
		if took, err = w.sample(visit); err != nil {
			return nil, err
		}
		if ages.Length() >= w.length-next/2 || len(ages.ends) == maxIntervals {
			return ages, nil
		}
	}
}

func (w *watch) sample(visit func(Range, bool)) (time.Duration, error) {
	cost, err := w.source.Sample(w.ranges, visit)
	w.cost.Add(cost)
	return cost.Total(), err
}
