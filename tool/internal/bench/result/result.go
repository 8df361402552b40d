// Package result holds the values that a benchmark measured and their files: samples of one run, the results of
// all runs, and the folder that keeps them. It also computes their statistics: quantiles, confidence intervals,
// ratios and means.
package result

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
)

// Schema names the layout of the JSON file.
const Schema = "granary-bench/3"

// Better is the direction of a metric: whether a lower or a higher value is preferable.
type Better string

// The directions of a metric. A Neutral one is shown but never compared.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neutral Better = ""
)

// A Row is one line of the comparison: a metric within a phase of the scenario.
type Row struct {
	Phase  string `json:"phase"`
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	Better Better `json:"better,omitempty"`
}

// Key identifies a row among others.
func (r Row) Key() Key { return Key{r.Phase, r.Metric} }

// Key is the identity of a row.
type Key struct{ Phase, Metric string }

// An Observation is one measured value.
type Observation struct {
	Allocator string  `json:"allocator"`
	Round     int     `json:"round"`
	Phase     string  `json:"phase"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
}

// A Series is a value over time, in seconds since its phase began.
type Series struct {
	Allocator string       `json:"allocator"`
	Round     int          `json:"round"`
	Phase     string       `json:"phase"`
	Metric    string       `json:"metric"`
	Unit      string       `json:"unit"`
	Points    [][2]float64 `json:"points"`
}

// A Histogram counts measurements by their time and their value.
type Histogram struct {
	Allocator string  `json:"allocator"`
	Round     int     `json:"round"`
	Phase     string  `json:"phase"`
	Metric    string  `json:"metric"`
	Unit      string  `json:"unit"`
	Interval  float64 `json:"interval_seconds"`
	// Buckets are ascending by interval and bound; empty ones are left out.
	Buckets []Bucket `json:"buckets"`
}

// A Bucket is the measurements of one interval with similar values.
type Bucket struct {
	Interval int     `json:"i"`
	Bound    float64 `json:"le"` // the upper bound of the values
	Count    uint64  `json:"n"`
}

// A Failure records why an allocator has no values from a given round on.
type Failure struct {
	Subject   string `json:"subject,omitempty"`
	Allocator string `json:"allocator"`
	Round     int    `json:"round"`
	Reason    string `json:"reason"`
}

// A Sample holds the values of one run of one allocator.
type Sample struct {
	values     map[Key]float64
	order      []Key
	series     []Series
	histograms []Histogram
	notes      []string
	run        *Run
}

// Set records a value. What is no number (a ratio to nothing) is not recorded, as JSON could not hold it.
func (s *Sample) Set(phase, metric string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	if s.values == nil {
		s.values = map[Key]float64{}
	}
	key := Key{phase, metric}
	if _, known := s.values[key]; !known {
		s.order = append(s.order, key)
	}
	s.values[key] = value
}

// Get returns a recorded value.
func (s *Sample) Get(phase, metric string) (float64, bool) {
	v, ok := s.values[Key{phase, metric}]
	return v, ok
}

// Trace records a series; its allocator and round are filled in later.
func (s *Sample) Trace(series Series) { s.series = append(s.series, series) }

// Count records a histogram; its allocator and round are filled in later.
func (s *Sample) Count(h Histogram) { s.histograms = append(s.histograms, h) }

// Note records a remark about all results of the run.
func (s *Sample) Note(note string) { s.notes = append(s.notes, note) }

// Ran records the time of the run and its disturbances.
func (s *Sample) Ran(run Run) { s.run = &run }

// Empty reports whether the sample has no values.
func (s *Sample) Empty() bool { return len(s.order) == 0 }

// A Run is one visit of one allocator, and the activity of the rest of the machine.
type Run struct {
	Allocator string    `json:"allocator"`
	Round     int       `json:"round"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	// CPU seconds: of this tool, the server and the load together; of other processes; and taken by the
	// hypervisor.
	OwnCPU    float64 `json:"own_cpu_seconds"`
	OthersCPU float64 `json:"others_cpu_seconds"`
	Stolen    float64 `json:"stolen_seconds"`
	// Seconds for which a CPU limit of this process's control group held its threads back.
	Throttled float64 `json:"throttled_seconds,omitempty"`
	LoadAfter string  `json:"load_after,omitempty"`
}

// A Session is one call of the command that added rounds.
type Session struct {
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Machine Machine   `json:"machine"`
}

// Results holds all measured values of a scenario with the facts about the run. It is the content of the
// JSON file.
type Results struct {
	Schema       string                 `json:"schema"`
	Scenario     string                 `json:"scenario"`
	Version      string                 `json:"version"`
	Started      time.Time              `json:"started"`
	Seconds      float64                `json:"seconds"`
	Rounds       int                    `json:"rounds"`
	Settings     map[string]any         `json:"settings"`
	Machine      Machine                `json:"machine"`
	Allocators   []allocators.Allocator `json:"allocators"`
	Rows         []Row                  `json:"rows"`
	Observations []Observation          `json:"observations"`
	Sessions     []Session              `json:"sessions,omitempty"`
	Runs         []Run                  `json:"runs,omitempty"`
	Series       []Series               `json:"series,omitempty"`
	Histograms   []Histogram            `json:"histograms,omitempty"`
	Failures     []Failure              `json:"failures,omitempty"`
	Notes        []string               `json:"notes,omitempty"`
}

// Add adds the sample of one allocator and round to the results.
func (r *Results) Add(allocator string, round int, s Sample) {
	for _, key := range s.order {
		r.Observations = append(r.Observations, Observation{allocator, round, key.Phase, key.Metric, s.values[key]})
	}
	for _, series := range s.series {
		series.Allocator, series.Round = allocator, round
		r.Series = append(r.Series, series)
	}
	for _, h := range s.histograms {
		h.Allocator, h.Round = allocator, round
		r.Histograms = append(r.Histograms, h)
	}
	for _, note := range s.notes {
		r.Note(note)
	}
	if s.run != nil {
		run := *s.run
		run.Allocator, run.Round = allocator, round
		r.Runs = append(r.Runs, run)
	}
}

// Values are the values of a row for one allocator by round.
func (r *Results) Values(allocator string, key Key) map[int]float64 {
	out := map[int]float64{}
	for _, o := range r.Observations {
		if o.Allocator == allocator && (Key{o.Phase, o.Metric}) == key {
			out[o.Round] = o.Value
		}
	}
	return out
}

// RoundsOf is in how many rounds an allocator has values.
func (r *Results) RoundsOf(allocator string) int {
	seen := map[int]bool{}
	for _, o := range r.Observations {
		if o.Allocator == allocator {
			seen[o.Round] = true
		}
	}
	return len(seen)
}

// Note adds a remark about all results, unless they already contain it.
func (r *Results) Note(note string) {
	if !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
}

// WriteJSON writes the results to path. The file is replaced as a whole: a reader never finds a part of
// it.
func (r *Results) WriteJSON(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of the results: %w", err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("put the results in place: %w", err)
	}
	return nil
}

// Names of metrics that are taken of a whole program, whatever it does.
const (
	MetricWall    = "wall time"
	MetricCPU     = "CPU time"
	MetricPeakRSS = "peak RSS"
	MetricFaults  = "page faults"
)

// MetricCurve is the series of latencies by the share of requests that did not exceed them.
const MetricCurve = "latency by percentile"

// MetricLatencies is the histogram of the latencies of requests by the time at which they were due.
const MetricLatencies = "latency over time"

// LevelsADecade is how many buckets a decade of latency has in the histogram.
const LevelsADecade = 8

// The series of a whole run, in seconds since it began: the memory of its server, and for each phase one
// point, its begin and its end.
const (
	MetricRunRSS = "RSS over the run"
	MetricSpan   = "begin and end"
)
