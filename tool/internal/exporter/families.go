package exporter

import (
	"maps"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// families collects series by metric.
type families map[string]*dto.MetricFamily

// A series is a metric with its value, in one piece of memory: a host may have 40,000 of them.
type series struct {
	metric  dto.Metric
	gauge   dto.Gauge
	counter dto.Counter
}

// promFamilies are the groups as Prometheus' library has them, by name.
func promFamilies(groups []group) []*dto.MetricFamily {
	out := families{}
	for _, g := range groups {
		out.add(g)
	}
	sorted := make([]*dto.MetricFamily, 0, len(out))
	for _, name := range slices.Sorted(maps.Keys(out)) {
		sorted = append(sorted, out[name])
	}
	return sorted
}

// add adds the series of a group, which share their labels and their memory.
func (f families) add(g group) {
	var labels []*dto.LabelPair
	if g.command != "" {
		labels = append(labels, pair("command", g.command))
	}
	if g.pid > 0 {
		labels = append(labels, pair("pid", strconv.Itoa(g.pid)))
	}
	all := make([]series, len(g.points))
	for i := range g.points {
		p, s := &g.points[i], &all[i]
		family := f[p.name]
		if family == nil {
			family = &dto.MetricFamily{Name: &p.name, Help: &p.help, Type: &p.kind}
			f[p.name] = family
		}
		s.metric.Label = labels
		if p.also.name != "" {
			s.metric.Label = append(slices.Clip(labels), pair(p.also.name, p.also.value))
		}
		if p.kind == dto.MetricType_COUNTER {
			s.counter.Value, s.metric.Counter = &p.value, &s.counter
		} else {
			s.gauge.Value, s.metric.Gauge = &p.value, &s.gauge
		}
		family.Metric = append(family.Metric, &s.metric)
	}
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
