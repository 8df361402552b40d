package exporter

import (
	"math"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// forgotten is the time after which the counters of a name are dropped that no process has any more. It is longer
// than the five minutes for which Prometheus continues a series.
const forgotten = 10 * time.Minute

// totals sums processes by name. A gauge is the sum over the processes that run. A counter also contains the
// processes that ended, up to their last reading, so that it never falls: a sum over those that run would.
type totals struct {
	now      func() time.Time
	last     map[lifetime]map[string]uint64
	commands map[string]*total
}

// A lifetime is a heap: another process with the PID has other ticks, and after exec the library is elsewhere.
type lifetime struct {
	pid            int
	ticks, library uint64
}

// A total is the sum of the processes of one name.
type total struct {
	processes int
	rss       uint64
	versions  map[string]bool
	snapshot  *inspect.Snapshot
	seen      time.Time
}

func newTotals(now func() time.Time) *totals {
	return &totals{now: now, last: map[lifetime]map[string]uint64{}, commands: map[string]*total{}}
}

// add takes a reading into account and returns the sums by name.
func (t *totals) add(r Reading) map[string]*total {
	for name, sum := range t.commands {
		if t.now().Sub(sum.seen) > forgotten {
			delete(t.commands, name)
			continue
		}
		sum.processes, sum.rss, sum.versions = 0, 0, map[string]bool{}
		for i, m := range sum.snapshot.Metrics {
			if m.Kind != "counter" {
				sum.snapshot.Metrics[i].Value = 0
			}
		}
	}
	running := make(map[lifetime]map[string]uint64, len(r.Processes))
	for _, p := range r.Processes {
		sum := t.commands[p.Command]
		if sum == nil {
			sum = &total{versions: map[string]bool{}, snapshot: &inspect.Snapshot{}}
			t.commands[p.Command] = sum
		}
		id := lifetime{p.PID, p.ticks, p.library}
		running[id] = sum.take(p, t.last[id])
		sum.seen = t.now()
	}
	t.last = running
	return t.commands
}

// take adds a process, and returns its counters for the next time.
func (s *total) take(p Process, last map[string]uint64) map[string]uint64 {
	s.processes++
	s.rss += p.RSS
	s.versions[p.Snapshot.Version] = true
	counters := map[string]uint64{}
	for i, m := range p.Snapshot.Metrics {
		sum := s.metric(i, m)
		more := m.Value
		if m.Kind == "counter" {
			counters[m.Name] = max(m.Value, last[m.Name])
			more = counters[m.Name] - last[m.Name]
		}
		if unbounded(m) || more > math.MaxUint64-sum.Value {
			sum.Value = math.MaxUint64
			continue
		}
		sum.Value += more
	}
	return counters
}

// metric is where the sum of m is, which is usually the place that m has in its own table.
func (s *total) metric(i int, m inspect.Metric) *inspect.Metric {
	all := s.snapshot.Metrics
	if i >= len(all) || all[i].Name != m.Name {
		i = slices.IndexFunc(all, func(known inspect.Metric) bool { return known.Name == m.Name })
	}
	if i < 0 {
		i = len(all)
		m.Value = 0
		s.snapshot.Metrics = append(all, m)
	}
	return &s.snapshot.Metrics[i]
}
