package measure

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

// stalling is a simulated server that answers one request at a time immediately, but stalls once.
type stalling struct {
	mu      sync.Mutex
	at      int
	stall   time.Duration
	stalled bool
}

func (s *stalling) Do(_ context.Context, _ int, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= s.at && !s.stalled {
		s.stalled = true
		time.Sleep(s.stall)
	}
	return nil
}

func TestAStallOf50MillisecondsShowsInP999(t *testing.T) {
	s := &stalling{at: 2000, stall: 50 * time.Millisecond}
	o, err := RunLoad(context.Background(), LoadPlan{Rate: 2000, Duration: 2 * time.Second, Connections: 4, Do: s.Do})
	if err != nil || o.Requests != 4000 {
		t.Fatalf("%+v, %v", o, err)
	}
	// About 100 of 4,000 requests were due during the stall, so p99.9 is nearly all of it. A closed loop
	// with 4 connections would have 4 slow requests, and show nothing at p99.9.
	if p := o.Milliseconds(0.999); p < 40 {
		t.Errorf("p99.9 is %v ms", p)
	}
	if o.Worst() < 49 {
		t.Errorf("the worst is %v ms", o.Worst())
	}
	interval, buckets := o.Over()
	if interval != 40*time.Millisecond {
		t.Errorf("an interval is %v", interval)
	}
	var requests, slow uint64
	for _, b := range buckets {
		requests += b.Count
		if b.Bound > 10 && b.Interval >= 25 { // request 2,000 is due after one second
			slow += b.Count
		}
	}
	if requests != 4000 || slow < 50 {
		t.Errorf("the buckets hold %d requests, %d of them slow and after the stall began", requests, slow)
	}
	var below float64
	curve := o.Curve()
	if len(curve) != 12 || curve[1][0] != 0.5 || curve[11][0] != 1-1.0/2048 { // 4,000 requests halve eleven times
		t.Errorf("the curve is %v", curve)
	}
	for _, point := range curve {
		if point[1] < below {
			t.Errorf("the curve falls at %v", point)
		}
		below = point[1]
	}
}

func TestAServerThatCannotKeepUpShowsAsThroughputAndLatency(t *testing.T) {
	var mu sync.Mutex
	slow := func(context.Context, int, int) error {
		mu.Lock()
		defer mu.Unlock()
		time.Sleep(5 * time.Millisecond) // at most 200 a second
		return nil
	}
	o, err := RunLoad(context.Background(), LoadPlan{Rate: 400, Duration: time.Second, Connections: 8, Do: slow})
	if err != nil || o.Throughput() > 210 || o.Milliseconds(0.99) < 500 {
		t.Errorf("throughput %v, p99 %v ms, %v", o.Throughput(), o.Milliseconds(0.99), err)
	}
}

func TestEveryRequestIsSentOnceOverItsConnections(t *testing.T) {
	var mu sync.Mutex
	seen, connections := map[int]int{}, map[int]bool{}
	_, err := RunLoad(context.Background(), LoadPlan{Rate: 5000, Duration: 200 * time.Millisecond, Connections: 3, Do: func(_ context.Context, c, n int) error {
		mu.Lock()
		defer mu.Unlock()
		seen[n]++
		connections[c] = true
		return nil
	}})
	if err != nil || len(seen) != 1000 || len(connections) > 3 {
		t.Errorf("%d requests, %d connections, %v", len(seen), len(connections), err)
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("request %d was sent %d times", n, times)
		}
	}
}

func TestErrorsAndInterruptsEndALoad(t *testing.T) {
	broken := errors.New("connection reset")
	_, err := RunLoad(context.Background(), LoadPlan{Rate: 1000, Duration: time.Minute, Connections: 2, Do: func(context.Context, int, int) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = RunLoad(ctx, LoadPlan{Rate: 10, Duration: time.Minute, Connections: 1, Do: func(context.Context, int, int) error { return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if _, err := RunLoad(context.Background(), LoadPlan{Rate: math.Inf(-1), Connections: 1}); err == nil {
		t.Error("a load of nothing is no error")
	}
}
