package runner

import (
	"context"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// Names of metrics that scenarios share.
const (
	MetricRSS        = "RSS"
	MetricCPU        = "server CPU"
	MetricThroughput = "throughput"
	MetricP50        = "p50"
	MetricP90        = "p90"
	MetricP99        = "p99"
	MetricP999       = "p99.9"
	MetricMax        = "max"
	// MetricSampledRSS is the largest sum of the processes' proportional set sizes in any sample, in bytes. It may miss the
	// peak, so it is shown and not compared. Of a program that ends it is at least the peak of its largest process.
	MetricSampledRSS = "largest sampled RSS"
	// Of the server's memory control group, where one can be made. The kernel records the peak, so none is missed; files
	// that it keeps in memory are in it.
	MetricGroupPeak   = "control group, peak"
	MetricGroupKernel = "control group, of the kernel"
)

// LowerRow is a row of which less is better.
func LowerRow(metric, unit string) result.Row {
	return result.Row{Metric: metric, Unit: unit, Better: result.Lower}
}

// HigherRow is a row of which more is better.
func HigherRow(metric, unit string) result.Row {
	return result.Row{Metric: metric, Unit: unit, Better: result.Higher}
}

// LatencyRows are the rows of a distribution in milliseconds.
func LatencyRows(metrics ...string) []result.Row {
	var out []result.Row
	for _, m := range metrics {
		out = append(out, LowerRow(m, "ms"))
	}
	return out
}

// StartPhase starts the server and records its RSS.
func StartPhase(start func(context.Context, *Visit) error) Phase {
	return Phase{"start", []result.Row{LowerRow(MetricRSS, "bytes")}, func(ctx context.Context, v *Visit) error {
		if err := start(ctx, v); err != nil {
			return err
		}
		rss, err := v.RSS()
		v.Set(MetricRSS, rss)
		return err
	}}
}

// WarmUp is load before anything is recorded.
func WarmUp(load func(context.Context, *Visit) error) Phase { return Phase{Name: "warm-up", Do: load} }

// IdlePhase leaves the server idle for the time of the parameter settle, and records its RSS.
func IdlePhase() Phase {
	return Phase{"idle after the load", []result.Row{LowerRow(MetricRSS, "bytes")}, func(ctx context.Context, v *Visit) error {
		if _, err := v.Settle(ctx, v.Values.Duration("settle")); err != nil {
			return err
		}
		rss, err := v.RSS()
		v.Set(MetricRSS, rss)
		return err
	}}
}

// SettleParam is the time that IdlePhase waits.
func SettleParam() Param {
	return Param{Name: "settle", Kind: Duration, Full: "5s", Quick: "2s", Help: "how long the server is left alone before its memory is read"}
}

// LoadMemory are the rows of SetLoadMemory.
func LoadMemory(tree bool) []result.Row {
	if tree {
		return treeMemory()
	}
	return []result.Row{LowerRow(MetricRSS, "bytes")}
}

// SetLoadMemory records the peak of a load: the kernel's peak RSS of one process, and of a Tree the control group's.
func (v *Visit) SetLoadMemory(seen Between) {
	if !v.Server.spec.Tree {
		v.Set(MetricRSS, seen.PeakRSS)
		return
	}
	v.Set(MetricSampledRSS, seen.PeakRSS)
	if seen.PeakGroup > 0 {
		v.Set(MetricGroupPeak, seen.PeakGroup)
	}
}

func treeMemory() []result.Row {
	return []result.Row{LowerRow(MetricGroupPeak, "bytes"), {Metric: MetricSampledRSS, Unit: "bytes"}}
}

// WholePhase stops the server and records its total CPU time and its peak memory.
func WholePhase() Phase {
	return wholePhase(LowerRow(result.MetricPeakRSS, "bytes"), result.Row{Metric: MetricGroupPeak, Unit: "bytes"})
}

// WholeTreePhase is WholePhase of a server that consists of several processes.
func WholeTreePhase() Phase { return wholePhase(treeMemory()...) }

func wholePhase(memory ...result.Row) Phase {
	rows := append([]result.Row{LowerRow(MetricCPU, "s"), LowerRow("user CPU", "s"), LowerRow("system CPU", "s")}, memory...)
	return Phase{"whole run", append(rows, LowerRow(result.MetricFaults, "count"), LowerRow("context switches", "count"),
		result.Row{Metric: MetricGroupKernel, Unit: "bytes"}), whole}
}

func whole(_ context.Context, v *Visit) error {
	cpu, err := v.Server.CPUSeconds() // without the time of stopping
	if err != nil {
		return err
	}
	v.Set(MetricCPU, cpu)
	if err := v.notePeak(); err != nil {
		return err
	}
	if v.Server.spec.Tree {
		v.Set(MetricSampledRSS, v.peak)
	} else {
		v.Set(result.MetricPeakRSS, v.peak)
	}
	v.setGroup()
	v.Stop()
	v.setUsage(measure.UsageOf(v.Server.process.Rusage()))
	return nil
}

// notePeak raises the visit's peak RSS to the server's: the kernel's peak, or for a Tree the present sum.
func (v *Visit) notePeak() error {
	memory, err := v.Server.Memory()
	if err != nil {
		return err
	}
	peak := memory.Peak
	if v.Server.spec.Tree {
		peak = memory.RSS
	}
	v.peak = max(v.peak, float64(peak))
	return nil
}

// setGroup records what the server's memory control group holds and held, where it has one.
func (v *Visit) setGroup() {
	if used, ok := v.setGroupPeak(); ok {
		v.Set(MetricGroupKernel, used.Kernel)
	}
}

func (v *Visit) setGroupPeak() (measure.GroupUsage, bool) {
	if v.Server.group == nil {
		return measure.GroupUsage{}, false
	}
	used, err := v.Server.group.Read()
	if err == nil && used.Peak > 0 { // kernels before Linux 5.19 record no peak
		v.Set(MetricGroupPeak, used.Peak)
	}
	return used, err == nil
}

func (v *Visit) setUsage(u measure.Usage) {
	v.Set("user CPU", u.User)
	v.Set("system CPU", u.Sys)
	v.Set(result.MetricFaults, u.Faults)
	v.Set("context switches", u.Switches)
}
