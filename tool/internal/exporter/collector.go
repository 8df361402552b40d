// Package exporter serves the figures of every Granary process it may read to Prometheus, and pushes them by OTLP.
// Names, help and types come from the table that each process carries itself.
package exporter

import (
	"regexp"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"

	dto "github.com/prometheus/client_model/go"
)

// Config selects the processes and the metrics to export, and bounds the time of a scrape.
type Config struct {
	PIDs         []int          // only these; all that run Granary when empty
	Commands     *regexp.Regexp // only processes of such names; nil for all
	Classes      bool           // the figures of each size class as well
	ByCommand    bool           // sums of the processes of a name, instead of each process
	MaxProcesses int            // more are counted, not read
	Timeout      time.Duration  // of one scrape
}

// A Collector reads the processes when Prometheus asks, or before a push. It is safe for use by several goroutines.
type Collector struct {
	*reader

	mu     sync.Mutex
	totals *totals // nil unless Config.ByCommand
	known  definitions
}

// New makes a collector.
func New(config Config, proc procfs.FS, open inspect.Opener, now func() time.Time) *Collector {
	c := &Collector{reader: newReader(config, proc, open, now), known: definitions{}}
	if config.ByCommand {
		c.totals = newTotals(now)
	}
	return c
}

// collect reads the processes; the last group is the exporter itself.
func (c *Collector) collect() (groups []group, taken time.Time) {
	reading := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals != nil {
		groups = commandGroups(c.totals.add(reading), c.known)
	} else {
		groups = processGroups(reading, c.known)
	}
	return append(groups, ownGroup(reading)), reading.Taken
}

// Gather returns the metrics of all processes, by name (prometheus.Gatherer).
func (c *Collector) Gather() ([]*dto.MetricFamily, error) {
	groups, _ := c.collect()
	return promFamilies(groups), nil
}
