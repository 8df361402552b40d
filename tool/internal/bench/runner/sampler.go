package runner

import (
	"context"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// sampleEvery is the distance of two readings of a running server.
const sampleEvery = 100 * time.Millisecond

// wholeEvery is the number of samples between two readings of the slow figures, for which the kernel walks
// all pages.
const wholeEvery = 10

// The series of the costly figures.
const (
	seriesPSS  = "PSS"
	seriesHeap = "heap" // anonymous memory: the server's heap and stacks
)

// A Watch reads a server's resident size and CPU time again and again while something else happens.
type Watch struct {
	server *Server
	cancel context.CancelFunc
	done   chan struct{}
	start  time.Time
	mu     sync.Mutex // guards the fields below
	rss    [][2]float64
	cpu    [][2]float64
	pss    [][2]float64
	heap   [][2]float64
	others bool // the server has children, which are not counted
}

// watch starts to sample.
func watch(ctx context.Context, server *Server) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{server: server, cancel: cancel, done: make(chan struct{}), start: time.Now()}
	go w.loop(ctx)
	return w
}

func (w *Watch) loop(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		w.read()
		if n%wholeEvery == 0 {
			w.readWhole()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// read takes one sample and returns its time. A server that has ended yields no sample; another check
// reports its end.
func (w *Watch) read() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Since(w.start).Seconds()
	rss, err1 := w.server.Resident()
	cpu, err2 := w.server.CPUSeconds()
	if err1 == nil && err2 == nil {
		w.rss = append(w.rss, [2]float64{at, rss})
		w.cpu = append(w.cpu, [2]float64{at, cpu})
	}
	return at
}

// readWhole takes one sample of the costly figures.
func (w *Watch) readWhole() {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Since(w.start).Seconds()
	if w.server.spec.Alone && len(w.server.proc.Tree(w.server.PID())) > 1 {
		w.others = true
	}
	if m, err := w.server.Memory(); err == nil {
		w.pss = append(w.pss, [2]float64{at, float64(m.PSS)})
		w.heap = append(w.heap, [2]float64{at, float64(m.Anonymous)})
	}
}

// stop ends the sampling with a last reading.
func (w *Watch) stop() {
	w.cancel()
	<-w.done
	w.read()
	w.readWhole()
}

// Between returns the samples' result between two times after the start of sampling.
type Between struct {
	Seconds    float64
	CPUSeconds float64
	PeakRSS    float64
	PeakGroup  float64 // of the control group of a Tree; 0: unknown
	EndRSS     float64
}

// between evaluates the samples from one time to another, in seconds since the start.
func (w *Watch) between(from, to float64) Between {
	var b Between
	var first, last [2]float64
	found := false
	for i, at := range w.cpu {
		if at[0] < from || at[0] > to {
			continue
		}
		if !found {
			first, found = at, true
		}
		last = at
		b.EndRSS = w.rss[i][1]
		b.PeakRSS = max(b.PeakRSS, w.rss[i][1])
	}
	b.Seconds, b.CPUSeconds = last[0]-first[0], last[1]-first[1]
	return b
}

// series are the samples for the results.
func (w *Watch) series(phase string) []result.Series {
	return []result.Series{
		{Phase: phase, Metric: MetricRSS, Unit: "bytes", Points: w.rss},
		{Phase: phase, Metric: MetricCPU, Unit: "s", Points: w.cpu},
		{Phase: phase, Metric: seriesPSS, Unit: "bytes", Points: w.pss},
		{Phase: phase, Metric: seriesHeap, Unit: "bytes", Points: w.heap},
	}
}
