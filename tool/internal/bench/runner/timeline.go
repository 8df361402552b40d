package runner

import (
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// A timeline samples the RSS of a visit's server from its start to its end, and keeps the time of each
// phase.
type timeline struct {
	start time.Time
	ended chan struct{}
	done  chan struct{}
	once  sync.Once

	mu     sync.Mutex // guards the fields below
	server *Server
	points [][2]float64
	every  int // only each so many ticks are kept
	phases []result.Series
}

// mostPoints is how many samples are kept: when there are as many, every other one is dropped.
const mostPoints = 1000

func startTimeline() *timeline {
	t := &timeline{start: time.Now(), ended: make(chan struct{}), done: make(chan struct{}), every: 1}
	go t.loop()
	return t
}

func (t *timeline) loop() {
	defer close(t.done)
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-t.ended:
			return
		case <-ticker.C:
			t.read(n)
		}
	}
}

// read takes the n-th sample. The memory of a Tree is slow to read, and is sampled less often.
func (t *timeline) read(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.server == nil || n%t.every != 0 || t.server.spec.Tree && n%wholeEvery != 0 {
		return
	}
	rss, err := t.server.Resident()
	if err != nil || rss == 0 { // it has ended
		return
	}
	t.points = append(t.points, [2]float64{time.Since(t.start).Seconds(), rss})
	if len(t.points) >= mostPoints {
		for i := range mostPoints / 2 {
			t.points[i] = t.points[2*i]
		}
		t.points, t.every = t.points[:mostPoints/2], t.every*2
	}
}

// follow samples this server from now on.
func (t *timeline) follow(s *Server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.process != nil {
		t.server = s
	}
}

// enter ends the phase that runs, and begins the next one.
func (t *timeline) enter(phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Since(t.start).Seconds()
	t.leave(now)
	t.phases = append(t.phases, result.Series{Phase: phase, Metric: result.MetricSpan, Unit: "s", Points: [][2]float64{{now, now}}})
}

func (t *timeline) leave(now float64) {
	if n := len(t.phases); n > 0 {
		t.phases[n-1].Points[0][1] = now
	}
}

// stop ends the sampling and returns the series for the results.
func (t *timeline) stop() []result.Series {
	t.once.Do(func() {
		close(t.ended)
		<-t.done
		t.leave(time.Since(t.start).Seconds())
	})
	if len(t.points) == 0 {
		return nil
	}
	return append(t.phases, result.Series{Metric: result.MetricRunRSS, Unit: "bytes", Points: t.points})
}
