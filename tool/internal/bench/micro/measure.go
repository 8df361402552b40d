package micro

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// limit is the time after which a run of a program is stopped as hung.
const limit = 5 * time.Minute

// A bench of programs: where they are, and how they are run.
type workbench struct {
	suite   Suite
	dir     string
	quick   bool
	proc    procfs.FS
	environ []string
	warmer  *warmer
}

// measure runs one program under one allocator.
func (w workbench) measure(ctx context.Context, name string, c allocators.Allocator) (result.Sample, error) {
	var sample result.Sample
	program := w.suite.Find(name)
	path, err := program.Path(w.dir)
	if err == nil {
		err = preload.Check(path, c.Path, preload.CurrentCredentials(), os.Getenv("PATH"))
	}
	if err != nil {
		return sample, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end within %v", limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "granary-micro-")
	if err != nil {
		return sample, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	spec := measure.Spec{Path: path, Args: program.Arguments(w.quick), Env: measure.Clean(w.environ), Log: filepath.Join(dir, "log")}
	w.warmer.warm(name)
	usage, output, err := measure.Program(ctx, w.proc, spec, c.Variables(false))
	if err != nil {
		return sample, err
	}
	w.warmer.note(name, usage.PeakRSS)
	sample.Set(name, result.MetricWall, usage.Wall)
	sample.Set(name, result.MetricCPU, usage.User+usage.Sys)
	sample.Set(name, "user CPU time", usage.User)
	sample.Set(name, "system CPU time", usage.Sys)
	sample.Set(name, result.MetricPeakRSS, usage.PeakRSS)
	sample.Set(name, result.MetricFaults, usage.Faults)
	sample.Set(name, "context switches", usage.Switches)
	return sample, printed(&sample, program, output)
}

// printedName makes a metric's name the one word that a program prints.
var printedName = strings.NewReplacer(", ", "_", " ", "_")

// printed records the metrics that a program must print, and the series that it may print.
func printed(sample *result.Sample, program Program, output string) error {
	values := parseMetrics(output)
	for _, m := range program.Metrics {
		name := printedName.Replace(m.Name)
		text, ok := values[name]
		if !ok {
			return fmt.Errorf("%s printed no `metric %s`; it printed: %.200q", program.Name, name, output)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("metric %s of %s: %w", m.Name, program.Name, err)
		}
		sample.Set(program.Name, m.Name, value)
	}
	series, err := parseSeries(program.Name, output)
	for _, s := range series {
		sample.Trace(s)
	}
	return err
}

// effective checks that an allocator takes effect in a program of this machine. The program is `sleep`,
// which runs long enough for the check.
func (w workbench) effective(ctx context.Context, c allocators.Allocator) error {
	sleep, err := preload.Resolve("sleep", os.Getenv("PATH"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "granary-micro-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	environ := append(append(measure.Clean(w.environ), c.Variables(false)...), "LD_BIND_NOW=1")
	p, err := measure.Start(measure.Spec{Path: sleep, Args: []string{"60"}, Env: environ, Log: filepath.Join(dir, "log")})
	if err != nil {
		return err
	}
	defer p.Stop(0)
	return p.WaitReady(ctx, "sleep under "+c.Name, 5*time.Second, func(context.Context) error {
		owner, err := preload.Owner(w.proc, p.PID(), "malloc")
		if err == nil && owner != c.Path {
			err = fmt.Errorf("%s did not take effect: malloc is that of %s", c.Name, owner)
		}
		return err
	})
}
