package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// LoadPlan is an open-loop load with a rate, a duration and a number of connections. Each request has a
// scheduled time, which does not depend on the answers to earlier requests, and its latency is measured
// from that time. The latencies of a server that stalls therefore include every request that waited (no
// coordinated omission).
type LoadPlan struct {
	Rate        float64 // requests a second
	Duration    time.Duration
	Connections int
	// Do sends request n and waits for its answer. One goroutine for each connection calls it.
	Do func(ctx context.Context, connection int, n int) error
}

// LoadOutcome holds the measured throughput and latencies of a load.
type LoadOutcome struct {
	latencies *hdrhistogram.Histogram // nanoseconds
	over      grid                    // the same by the time at which the request was due
	Requests  int
	Seconds   float64 // from the first request due to the last answer
}

// Latencies are kept from one microsecond to ten minutes, three digits exactly.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)
}

// Milliseconds is the latency that the share q of the requests did not exceed.
func (o LoadOutcome) Milliseconds(q float64) float64 {
	return float64(o.latencies.ValueAtPercentile(q*100)) / 1e6
}

// Worst is the largest latency in milliseconds.
func (o LoadOutcome) Worst() float64 { return float64(o.latencies.Max()) / 1e6 }

// Throughput is requests a second. It falls below the plan's rate when the server cannot keep up.
func (o LoadOutcome) Throughput() float64 { return float64(o.Requests) / o.Seconds }

// Curve evaluates a distribution of so many requests at the shares 0, 1/2, 3/4 and on: the number of
// requests above halves from point to point, down to the slowest request.
func Curve(requests int, at func(share float64) float64) [][2]float64 {
	out := [][2]float64{}
	for above := 1.0; above*float64(requests) >= 1; above /= 2 {
		out = append(out, [2]float64{1 - above, at(1 - above)})
	}
	return out
}

// Curve is the latency in milliseconds by the share of the requests that did not exceed it.
func (o LoadOutcome) Curve() [][2]float64 { return Curve(o.Requests, o.Milliseconds) }

// Over returns the latencies in milliseconds by the time at which the requests were due, and the length of
// an interval of this time.
func (o LoadOutcome) Over() (interval time.Duration, buckets []result.Bucket) {
	return o.over.interval, o.over.buckets()
}

// RunLoad sends the load. It ends early with the first error.
func RunLoad(ctx context.Context, p LoadPlan) (LoadOutcome, error) {
	total := int(math.Round(p.Rate * p.Duration.Seconds()))
	if total < 1 || p.Connections < 1 {
		return LoadOutcome{}, fmt.Errorf("a load of %v requests a second over %d connections for %v sends nothing", p.Rate, p.Connections, p.Duration)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	due := make(chan int, total) // it never blocks the clock
	histograms, grids := make([]*hdrhistogram.Histogram, p.Connections), make([]grid, p.Connections)
	start := time.Now().Add(time.Millisecond)
	var group sync.WaitGroup
	for c := range p.Connections {
		histograms[c], grids[c] = newHistogram(), newGrid(p.Duration)
		group.Go(func() {
			if err := p.connection(ctx, c, start, due, histograms[c], &grids[c]); err != nil {
				cancel(err)
			}
		})
	}
	p.pace(ctx, start, total, due)
	group.Wait()
	outcome := LoadOutcome{newHistogram(), newGrid(p.Duration), total, time.Since(start).Seconds()}
	if err := context.Cause(ctx); err != nil {
		return outcome, err
	}
	for c, h := range histograms {
		outcome.latencies.Merge(h)
		outcome.over.merge(grids[c])
	}
	return outcome, nil
}

// intended is when request n is due.
func (p LoadPlan) intended(start time.Time, n int) time.Time {
	return start.Add(time.Duration(float64(n) / p.Rate * float64(time.Second)))
}

// pace passes every request on at its scheduled time. It keeps a thread of its own: the runtime's timers
// are sometimes a millisecond late, and that delay would add to the latency.
func (p LoadPlan) pace(ctx context.Context, start time.Time, total int, due chan<- int) {
	defer close(due)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) // without it the default of 50 us holds
	for n := range total {
		for wait := time.Until(p.intended(start, n)); wait > 0; wait = time.Until(p.intended(start, n)) {
			pause := unix.NsecToTimespec(int64(min(wait, 50*time.Millisecond)))
			_ = unix.Nanosleep(&pause, nil) // a signal ends it early, and the loop continues
			if ctx.Err() != nil {
				return
			}
		}
		due <- n
	}
}

func (p LoadPlan) connection(ctx context.Context, c int, start time.Time, due <-chan int, h *hdrhistogram.Histogram, over *grid) error {
	for n := range due {
		if ctx.Err() != nil {
			return nil
		}
		if err := p.Do(ctx, c, n); err != nil {
			return err
		}
		intended := p.intended(start, n)
		latency := time.Since(intended)
		over.record(intended.Sub(start), latency)
		if err := h.RecordValue(int64(latency)); err != nil {
			return errors.Join(errors.New("a request took more than ten minutes"), err)
		}
	}
	return nil
}
