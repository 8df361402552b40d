package result

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/allocators"
)

// meanings explain the fields of the JSON file, by type and field. A test holds them against the types,
// so that none is missing and none is left over.
var meanings = map[string]map[string]string{
	"Results": {
		"schema":       "the layout of the file: " + Schema,
		"scenario":     "the name of the scenario or of the plan file",
		"version":      "of the command that wrote the file last",
		"started":      "when the first session began",
		"seconds":      "how long all sessions took, s",
		"rounds":       "finished rounds",
		"settings":     "the scenario's parameters by name",
		"machine":      "where the first session ran",
		"allocators":   "the allocators, in the order of the columns",
		"rows":         "the compared metrics, in the order of the tables",
		"observations": "every measured value",
		"sessions":     "each call of the command that added rounds",
		"runs":         "each run of one allocator, with its disturbances",
		"series":       "values over time, and latencies by percentile",
		"histograms":   "numbers of measurements by time and value",
		"failures":     "why an allocator has no values from a round on",
		"notes":        "remarks about the results",
	},
	"Machine": {
		"cpu": "the model", "cpus": "how many", "memory_bytes": "RAM, bytes", "kernel": "the release of Linux", "architecture": "amd64 or arm64",
		"system": "the distribution", "transparent_huge_pages": "always, madvise or never", "governor": "of the first CPU's frequency",
		"load_before": "/proc/loadavg at the start", "memory_limit": "of the control group, bytes", "cpu_limit": "of the control group: us of CPU time in each period of so many us",
	},
	"Allocator": {
		"name": "of the column", "path": "the library's file", "env": "variables that it needs or that are its settings", "sha256": "of the library's file",
		"system": "true for the C library's own allocator", "version": "if the file contains it",
	},
	"Row": {
		"phase": "the part of the scenario", "metric": "the measured quantity", "unit": "of the values as stored: bytes, s, ms, us, ns, 1/s, ratio, count, %",
		"better": "lower, higher, or nothing for a metric without a preference",
	},
	"Observation": {
		"allocator": "an allocator's name", "round": "from 0", "phase": "of the row", "metric": "of the row", "value": "in the row's unit",
	},
	"Session": {"started": "when", "version": "of the command", "machine": "where"},
	"Run": {
		"allocator": "an allocator's name", "round": "from 0", "started": "when", "seconds": "how long, s",
		"own_cpu_seconds":    "CPU time of the server, its load and the command, s",
		"others_cpu_seconds": "CPU time of every other process, s", "stolen_seconds": "CPU time that the hypervisor gave to other machines, s",
		"throttled_seconds": "for how long a CPU limit of the control group held threads back, s",
		"load_after":        "/proc/loadavg at the end",
	},
	"Series": {
		"allocator": "an allocator's name", "round": "from 0", "phase": "where it was taken", "metric": "the plotted quantity",
		"unit": "of the second number of a point",
		"points": "pairs: seconds since the phase began (a share for `" + MetricCurve + "`, a day for `by day`), value; `" + MetricRunRSS +
			"` is relative to the start of the run, and `" + MetricSpan + "` has the two times of the phase in the run",
	},
	"Histogram": {
		"allocator": "an allocator's name", "round": "from 0", "phase": "where it was taken", "metric": "the measured quantity", "unit": "of the values",
		"interval_seconds": "the length of an interval, s", "buckets": "the counts, ascending by interval and value; empty buckets are left out",
	},
	"Bucket": {"i": "the interval, from 0", "le": "the upper bound of the values", "n": "the number of measurements"},
	"Failure": {
		"subject": "the program, in scenarios with several", "allocator": "an allocator's name", "round": "the first without values, from 0", "reason": "the cause",
	},
}

// described are the types of the file, the outermost first.
var described = []reflect.Type{
	reflect.TypeFor[Results](), reflect.TypeFor[Row](), reflect.TypeFor[Observation](), reflect.TypeFor[allocators.Allocator](), reflect.TypeFor[Machine](),
	reflect.TypeFor[Session](), reflect.TypeFor[Run](), reflect.TypeFor[Series](), reflect.TypeFor[Histogram](), reflect.TypeFor[Bucket](), reflect.TypeFor[Failure](),
}

// Document writes the reference page of the JSON file.
func Document(out io.Writer) {
	fmt.Fprintf(out, "# results.json\n\n*Written by `go test ./tool/internal/bench/result -update` from the types. Change those, then run the test.*\n\n"+
		"Everything that `granary bench` measures, in one file; `--out DIR` and `--json FILE` write it. Its layout\nis called `%s`. "+
		"Empty fields may be left out. A reader must ignore fields that it does not know.\n", Schema)
	for _, t := range described {
		fmt.Fprintf(out, "\n## %s\n\n| field | type | meaning |\n|---|---|---|\n", t.Name())
		for i := range t.NumField() {
			name, optional := tag(t.Field(i))
			fmt.Fprintf(out, "| `%s` | %s%s | %s |\n", name, word(t.Field(i).Type), optional, meanings[t.Name()][name])
		}
	}
}

func tag(f reflect.StructField) (name, optional string) {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	if strings.Contains(rest, "omitempty") {
		optional = ", optional"
	}
	return name, optional
}

// word is the name of a Go type in the terms of JSON.
func word(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return word(t.Elem())
	case t.String() == "time.Time":
		return "time (RFC 3339)"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Array:
		return "list of pairs of numbers"
	case t.Kind() == reflect.Slice:
		return "list of " + word(t.Elem())
	case t.Kind() == reflect.Map:
		return "object"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Struct:
		return t.Name()
	}
	return "number"
}
