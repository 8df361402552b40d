package runner

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// ProgramRows are recorded of every program by Program.
func ProgramRows() []result.Row {
	return programRows(LowerRow(result.MetricPeakRSS, "bytes"), result.Row{Metric: MetricGroupPeak, Unit: "bytes"})
}

// TreeRows are ProgramRows of a program that consists of several processes.
func TreeRows() []result.Row { return programRows(treeMemory()...) }

func programRows(memory ...result.Row) []result.Row {
	rows := append([]result.Row{
		LowerRow(result.MetricWall, "s"), LowerRow(MetricCPU, "s"), LowerRow("user CPU", "s"), LowerRow("system CPU", "s"),
	}, memory...)
	return append(rows, LowerRow(result.MetricFaults, "count"), LowerRow("context switches", "count"), ShareRow())
}

// Program runs a program to its end under the allocator, records ProgramRows and the lines `metric NAME
// VALUE UNIT` that it prints, and returns all its output. The kernel reports its time and memory at its
// end, so they are exact for short programs too.
func (v *Visit) Program(ctx context.Context, spec ServerSpec) (string, error) {
	spec.Once = true
	if err := v.Start(ctx, spec); err != nil {
		return "", err
	}
	process := v.Server.process
	_, err := v.WatchShare(ctx, func(ctx context.Context, _ *Load) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-process.Done():
			return nil
		}
	})
	if err != nil {
		return "", err
	}
	printed, err := process.Output()
	if err != nil {
		return printed, fmt.Errorf("%s %w", spec.Name, err)
	}
	usage := process.Usage()
	v.Set(result.MetricWall, usage.Wall)
	v.Set(MetricCPU, usage.User+usage.Sys)
	v.setUsage(usage)
	if spec.Tree {
		v.Set(MetricSampledRSS, max(v.peak, usage.PeakRSS)) // a process may grow and end between two samples
	} else {
		v.Set(result.MetricPeakRSS, usage.PeakRSS)
	}
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
