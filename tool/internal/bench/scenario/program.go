package scenario

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// ProgramRows are recorded of every program by Program.
func ProgramRows() []result.Row {
	return []result.Row{
		LowerRow(result.MetricWall, "s"), LowerRow(MetricCPU, "s"), LowerRow("user CPU", "s"), LowerRow("system CPU", "s"),
		LowerRow(result.MetricPeakRSS, "bytes"), LowerRow(result.MetricFaults, "count"), LowerRow("context switches", "count"), ShareRow(),
		{Metric: MetricGroupPeak, Unit: "bytes"},
	}
}

// Program runs a program to its end under the contender, records ProgramRows and the lines
// `metric NAME VALUE UNIT` that it prints, and returns everything it printed. It must live long enough
// to be looked at, a tenth of a second or so.
func (v *Visit) Program(ctx context.Context, spec ServerSpec) (string, error) {
	start := time.Now()
	if err := v.Start(ctx, spec); err != nil {
		return "", err
	}
	peak := 0.0
	_, err := v.WatchShare(ctx, func(ctx context.Context, _ *Load) error {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			if m, err := v.Server.Memory(); err == nil {
				peak = max(peak, float64(m.Peak))
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-v.Server.process.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
	if err != nil {
		return "", err
	}
	v.Set(result.MetricWall, time.Since(start).Seconds())
	printed, err := v.Server.process.Output()
	if err != nil {
		return printed, fmt.Errorf("%s %w", spec.Name, err)
	}
	if usage, ok := v.Server.process.Rusage(); ok {
		v.Set(MetricCPU, seconds(usage.Utime)+seconds(usage.Stime))
		v.setUsage(usage)
	}
	v.Set(result.MetricPeakRSS, peak)
	v.setGroupPeak()
	v.Server.leave()
	v.Metrics(printed)
	return printed, nil
}

var metricLine = regexp.MustCompile(`(?m)^metric (\S+) (\S+)`)

// Metrics records the lines `metric NAME VALUE UNIT` of a text; underscores in names are spaces.
func (v *Visit) Metrics(text string) {
	for _, match := range metricLine.FindAllStringSubmatch(text, -1) {
		if value, err := strconv.ParseFloat(match[2], 64); err == nil {
			v.Set(strings.ReplaceAll(match[1], "_", " "), value)
		}
	}
}

// WriteFile writes a file into the visit's folder and returns its path.
func (v *Visit) WriteFile(name, text string) (string, error) {
	path := v.Dir + "/" + name
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}
