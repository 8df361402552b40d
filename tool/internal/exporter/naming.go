package exporter

import (
	"math"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix begins every name.
const prefix = "granary_"

// scale turns a unit of the metric table into the base unit of Prometheus and its suffix.
var scales = map[string]struct {
	suffix string
	factor float64
}{
	"bytes":       {"_bytes", 1},
	"nanoseconds": {"_seconds", 1e-9},
}

// Name is the Prometheus name of a metric of the library's table.
func Name(m inspect.Metric) string {
	name := prefix + strings.TrimSuffix(m.Name, scales[m.Unit].suffix) + scales[m.Unit].suffix
	if m.Kind == "counter" {
		name += "_total"
	}
	return name
}

// value is the metric in its base unit.
func value(m inspect.Metric) float64 {
	if m.Value == math.MaxUint64 || m.Name == "ceiling" && m.Value == 0 { // 0 before the limits are first read
		return math.Inf(1) // of a bound: there is none
	}
	if s, ok := scales[m.Unit]; ok {
		return float64(m.Value) * s.factor
	}
	return float64(m.Value)
}

func kind(m inspect.Metric) prometheus.ValueType {
	if m.Kind == "counter" {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// classMetrics are the figures of each size class, exported on request: there are a hundred classes.
var classMetrics = []struct {
	inspect.Metric
	of func(inspect.Class) uint64
}{
	{inspect.Metric{Name: "class_allocations", Kind: "counter", Unit: "count", Help: "allocations of this size class so far"}, func(c inspect.Class) uint64 { return c.Allocations }},
	{inspect.Metric{Name: "class_frees", Kind: "counter", Unit: "count", Help: "frees of this size class so far"}, func(c inspect.Class) uint64 { return c.Frees }},
	{inspect.Metric{Name: "class_live", Kind: "gauge", Unit: "bytes", Help: "bytes of objects of this size class that the program holds"}, inspect.Class.LiveBytes},
	{inspect.Metric{Name: "class_waste", Kind: "gauge", Unit: "bytes", Help: "bytes this size class keeps and the program does not use"}, inspect.Class.WasteBytes},
}
