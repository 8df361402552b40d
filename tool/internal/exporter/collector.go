// Package exporter serves the figures of every Granary process it may read to Prometheus. Names, help
// and types come from the table that each process carries itself.
package exporter

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"

	"github.com/prometheus/client_golang/prometheus"
)

// Config selects the processes and the metrics to export, and bounds the time of a scrape.
type Config struct {
	PIDs         []int          // only these; all that run Granary when empty
	Commands     *regexp.Regexp // only processes of such names; nil for all
	Classes      bool           // the figures of each size class as well
	MaxProcesses int            // more are counted, not read
	Timeout      time.Duration  // of one scrape
}

// Reader reads the figures of one process.
type Reader func(pid int) (*inspect.Snapshot, error)

// A Collector reads the processes when Prometheus asks. It is safe for use by several goroutines.
type Collector struct {
	config Config
	proc   procfs.FS
	read   Reader

	mu       sync.Mutex // one scrape at a time
	discover *Discovery
	errors   uint64
}

// workers read processes at the same time.
const workers = 2

var (
	labels      = []string{"pid", "command"}
	infoDesc    = prometheus.NewDesc(prefix+"process_info", "Always 1; version is that of the library in the process.", append(labels, "version"), nil)
	rssDesc     = prometheus.NewDesc(prefix+"process_resident_memory_bytes", "Resident memory of the process, of which the heap is a part.", labels, nil)
	ratioDesc   = prometheus.NewDesc(prefix+"fragmentation_ratio", "Memory of the heap for each live byte: (used_spans - slab_clean + dirty + metadata_used) / live; 1 is the best.", labels, nil)
	agreedDesc  = prometheus.NewDesc(prefix+"consistent", "Whether all figures of the process are those of one moment.", labels, nil)
	foundDesc   = prometheus.NewDesc(prefix+"exporter_processes", "Processes that were read.", nil, nil)
	leftDesc    = prometheus.NewDesc(prefix+"exporter_processes_left_out", "Processes that run Granary but were not read: too many of them, or too slow.", nil, nil)
	errorsDesc  = prometheus.NewDesc(prefix+"exporter_read_errors_total", "Processes that ran Granary and could not be read, or died while they were.", nil, nil)
	secondsDesc = prometheus.NewDesc(prefix+"exporter_scrape_duration_seconds", "Time the last scrape took.", nil, nil)
)

// New makes a collector.
func New(config Config, proc procfs.FS, read Reader, now func() time.Time) *Collector {
	return &Collector{config: config, proc: proc, read: read, discover: NewDiscovery(proc, now)}
}

// Describe sends no descriptions, because each process carries its own table of metrics.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads every process. One that dies meanwhile is left out; the others are complete.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	pids, left := c.pids()
	samples := c.readAll(ctx, pids)
	read := 0
	for _, s := range samples {
		switch {
		case s.skipped:
			left++
		case s.err != nil:
			c.errors++
		default:
			read++
			c.emit(out, s)
		}
	}
	out <- prometheus.MustNewConstMetric(foundDesc, prometheus.GaugeValue, float64(read))
	out <- prometheus.MustNewConstMetric(leftDesc, prometheus.GaugeValue, float64(left))
	out <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(c.errors))
	out <- prometheus.MustNewConstMetric(secondsDesc, prometheus.GaugeValue, time.Since(start).Seconds())
}

func (c *Collector) pids() (pids []int, left int) {
	if len(c.config.PIDs) > 0 {
		return c.config.PIDs, 0
	}
	pids, left, err := c.discover.PIDs(c.config.MaxProcesses)
	if err != nil {
		c.errors++
	}
	return pids, left
}

type sample struct {
	pid      int
	command  string
	rss      uint64
	snapshot *inspect.Snapshot
	err      error
	skipped  bool
}

// readAll reads with a few workers; what is not begun when the time is up is skipped.
func (c *Collector) readAll(ctx context.Context, pids []int) []sample {
	samples := make([]sample, len(pids))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(pids); i += workers {
				if ctx.Err() != nil {
					samples[i].skipped = true
					continue
				}
				samples[i] = c.one(pids[i])
			}
		})
	}
	group.Wait()
	kept := samples[:0]
	for _, s := range samples {
		if s.err != nil || s.skipped || c.config.Commands == nil || c.config.Commands.MatchString(s.command) {
			kept = append(kept, s)
		}
	}
	return kept
}

func (c *Collector) one(pid int) sample {
	s := sample{pid: pid}
	if s.command, s.err = c.proc.Comm(pid); s.err != nil {
		return s
	}
	if c.config.Commands != nil && !c.config.Commands.MatchString(s.command) {
		return s // readAll drops it
	}
	var memory procfs.Memory
	if memory, s.err = c.proc.Memory(pid); s.err != nil {
		return s
	}
	s.rss = memory.RSS
	s.snapshot, s.err = c.read(pid)
	return s
}

func (c *Collector) emit(out chan<- prometheus.Metric, s sample) {
	pid := strconv.Itoa(s.pid)
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
		metric, err := prometheus.NewConstMetric(desc, kind, v, append([]string{pid, s.command}, more...)...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		out <- metric
	}
	send(infoDesc, prometheus.GaugeValue, 1, s.snapshot.Version)
	send(rssDesc, prometheus.GaugeValue, float64(s.rss))
	if ratio := s.snapshot.Fragmentation(); ratio > 0 {
		send(ratioDesc, prometheus.GaugeValue, ratio)
	}
	consistent := 0.0
	if s.snapshot.Consistent {
		consistent = 1
	}
	send(agreedDesc, prometheus.GaugeValue, consistent)
	for _, m := range s.snapshot.Metrics {
		send(prometheus.NewDesc(Name(m), helpText(m.Help), labels, nil), kind(m), value(m))
	}
	if !c.config.Classes {
		return
	}
	for _, m := range classMetrics {
		desc := prometheus.NewDesc(Name(m.Metric), helpText(m.Help), append(labels, "size"), nil)
		for _, class := range s.snapshot.Classes {
			m.Value = m.of(class)
			send(desc, kind(m.Metric), value(m.Metric), strconv.FormatUint(class.Size, 10))
		}
	}
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
