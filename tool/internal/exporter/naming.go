package exporter

import (
	"math"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"

	dto "github.com/prometheus/client_model/go"
)

// prefix begins every name.
const prefix = "granary_"

// A scale turns a unit of the metric table into a base unit.
type scale struct {
	suffix string // of Prometheus' names
	unit   string // OpenTelemetry's, by UCUM; what stands in braces has no dimension
	factor float64
}

var scales = map[string]scale{
	"bytes":       {"_bytes", "By", 1},
	"nanoseconds": {"_seconds", "s", 1e-9},
	"count":       {"", "{count}", 1},
}

// A definition is what all series of a metric share.
type definition struct {
	name, help string // of Prometheus
	kind       dto.MetricType
	otel, unit string // OpenTelemetry's name and unit: Prometheus makes `name` of them
	upDown     bool   // OpenTelemetry's UpDownCounter instead of a gauge
}

// Name is the Prometheus name of a metric of the library's table.
func Name(m inspect.Metric) string {
	name := prefix + strings.TrimSuffix(m.Name, scales[m.Unit].suffix) + scales[m.Unit].suffix
	if m.Kind == "counter" {
		name += "_total"
	}
	return name
}

// define describes a metric of the library's table.
func define(m inspect.Metric) *definition {
	d := &definition{name: Name(m), help: helpText(m.Help), kind: dto.MetricType_GAUGE, unit: scales[m.Unit].unit}
	d.otel = "granary." + strings.TrimSuffix(m.Name, scales[m.Unit].suffix)
	if m.Kind == "counter" {
		d.kind = dto.MetricType_COUNTER
	}
	return d
}

// definitions are those of the libraries' tables, by the names there.
type definitions map[string]*definition

func (d definitions) of(m inspect.Metric) *definition {
	known := d[m.Name]
	if known == nil {
		known = define(m)
		d[m.Name] = known
	}
	return known
}

// own defines a metric that no library has in its table.
func own(name, unit, help string) *definition {
	d := define(inspect.Metric{Name: name, Unit: unit, Help: help})
	if unit == "" {
		d.unit = "1"
	}
	return d
}

// conventional gives a metric the name that OpenTelemetry's semantic conventions have for it.
func conventional(name string, d *definition) *definition {
	d.otel, d.upDown = name, true
	return d
}

// The metrics that no library has in its table.
var (
	infoMetric      = own("process_info", "count", "always 1; version is that of the library in the process")
	startMetric     = own("process_start_time_seconds", "nanoseconds", "when the process started, in seconds since 1970: tells it from an earlier one of the same PID")
	rssMetric       = conventional("process.memory.usage", own("process_resident_memory", "bytes", "resident memory of the process, of which the heap is a part"))
	ratioMetric     = own("fragmentation_ratio", "", "memory of the heap for each live byte: (used_spans - slab_clean + dirty + metadata_used) / live; 1 is the best")
	agreedMetric    = own("consistent", "count", "whether all figures of the process are those of one moment")
	processesMetric = own("processes", "count", "processes of this name that were read; with --by-command")
	foundMetric     = own("exporter_processes", "count", "processes that were read")
	leftMetric      = own("exporter_processes_left_out", "count", "processes that run Granary but were not read: too many of them, or too slow")
	errorsMetric    = define(inspect.Metric{Name: "exporter_read_errors", Kind: "counter", Unit: "count", Help: "processes that ran Granary and could not be read"})
	secondsMetric   = own("exporter_scrape_duration", "nanoseconds", "time the last scrape took")

	ownMetrics = []*definition{infoMetric, startMetric, rssMetric, ratioMetric, agreedMetric, processesMetric, foundMetric, leftMetric, errorsMetric, secondsMetric}
)

// unbounded is true for a metric that states a limit where no limit is set. The sum of no ceilings is 0: all processes
// of that name have ended.
func unbounded(m inspect.Metric) bool {
	return m.Value == math.MaxUint64 || m.Name == "ceiling" && m.Value == 0
}

// value is the metric in its base unit.
func value(m inspect.Metric) float64 {
	if unbounded(m) {
		return math.Inf(1)
	}
	if s, ok := scales[m.Unit]; ok {
		return float64(m.Value) * s.factor
	}
	return float64(m.Value)
}

// helpText adds a capital letter and a full stop to a help text.
func helpText(text string) string {
	if text == "" {
		return "No description."
	}
	first := text[0]
	if first >= 'a' && first <= 'z' {
		first -= 'a' - 'A'
	}
	return string(first) + text[1:] + "."
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
