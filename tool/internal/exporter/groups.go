package exporter

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A group has the metrics of one process, or of all processes of a name.
type group struct {
	command string
	pid     int    // 0 for all processes of the name
	ticks   uint64 // tells the process from an earlier one of the PID
	started time.Time
	points  []point
}

// A point is one number.
type point struct {
	*definition
	value float64
	also  label // besides those of the group; its name may be empty
}

type label struct{ name, value string }

func (g *group) add(d *definition, value float64) {
	g.points = append(g.points, point{definition: d, value: value})
}

func (g *group) addWith(d *definition, value float64, name, text string) {
	g.points = append(g.points, point{d, value, label{name, text}})
}

// processGroups are the processes, by name and PID.
func processGroups(r Reading, known definitions) []group {
	slices.SortStableFunc(r.Processes, func(a, b Process) int { return strings.Compare(a.Command, b.Command) })
	groups := make([]group, 0, len(r.Processes))
	for _, p := range r.Processes {
		g := group{command: p.Command, pid: p.PID, ticks: p.ticks, started: p.Started}
		g.points = make([]point, 0, len(p.Snapshot.Metrics)+len(classMetrics)*len(p.Snapshot.Classes)+5)
		g.addWith(infoMetric, 1, "version", p.Snapshot.Version)
		if !p.Started.IsZero() {
			g.add(startMetric, float64(p.Started.UnixMilli())/1000)
		}
		consistent := 0.0
		if p.Snapshot.Consistent {
			consistent = 1
		}
		g.add(agreedMetric, consistent)
		g.addHeap(known, p.RSS, p.Snapshot)
		groups = append(groups, g)
	}
	return groups
}

// commandGroups are the sums, by name.
func commandGroups(commands map[string]*total, known definitions) []group {
	groups := make([]group, 0, len(commands))
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		sum, g := commands[name], group{command: name}
		g.add(processesMetric, float64(sum.processes))
		for _, version := range slices.Sorted(maps.Keys(sum.versions)) {
			g.addWith(infoMetric, 1, "version", version)
		}
		g.addHeap(known, sum.rss, sum.snapshot)
		groups = append(groups, g)
	}
	return groups
}

// addHeap adds the figures of one heap, or of the sum of several.
func (g *group) addHeap(known definitions, rss uint64, s *inspect.Snapshot) {
	g.add(rssMetric, float64(rss))
	if ratio := s.Fragmentation(); ratio > 0 {
		g.add(ratioMetric, ratio)
	}
	for _, m := range s.Metrics {
		g.add(known.of(m), value(m))
	}
	for _, m := range classMetrics {
		for _, class := range s.Classes {
			m.Value = m.of(class)
			g.addWith(known.of(m.Metric), value(m.Metric), "size", strconv.FormatUint(class.Size, 10))
		}
	}
}

// ownGroup has the metrics of the exporter itself.
func ownGroup(r Reading) (g group) {
	g.add(foundMetric, float64(len(r.Processes)))
	g.add(leftMetric, float64(r.LeftOut))
	g.add(errorsMetric, float64(r.Errors))
	g.add(secondsMetric, r.Took.Seconds())
	return g
}
