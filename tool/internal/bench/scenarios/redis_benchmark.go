package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

// benchmarked holds the figures that redis-benchmark prints for one test; latencies are in milliseconds.
type benchmarked struct {
	throughput, p50, p99, p999 float64
	curve                      [][2]float64 // latencies by share; nil where only some percentiles are known
}

// record records throughput and latencies.
func (b benchmarked) record(v *runner.Visit) {
	v.Set(runner.MetricThroughput, b.throughput)
	v.Set(runner.MetricP50, b.p50)
	v.Set(runner.MetricP99, b.p99)
	v.Set(runner.MetricP999, b.p999)
	if len(b.curve) > 0 {
		v.Trace(result.MetricCurve, "ms", b.curve)
	}
}

// redisBenchmark runs one test of redis-benchmark over the scenario's keys.
func redisBenchmark(ctx context.Context, v *runner.Visit, port int, test string, size int, more ...string) (benchmarked, error) {
	args := append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", test, "-n", v.Values["requests"],
		"-r", v.Values["requests"], "-d", strconv.Itoa(size), "--precision", "3"}, more...)
	out, err := v.Tool(ctx, v.Paths["redis-benchmark"], args...)
	if err != nil {
		return benchmarked{}, err
	}
	return parseBenchmark(out, v.Values.Number("requests"))
}

var (
	throughputLine = regexp.MustCompile(`(?m)^\s*(?:throughput summary: )?([0-9.]+) requests per second`) // bare before Redis 6.2
	percentileLine = regexp.MustCompile(`(?m)^([0-9.]+)% <= ([0-9.]+) milliseconds(?: \(cumulative count ([0-9]+)\))?`)
)

// parseBenchmark reads the long report of redis-benchmark about so many requests. Its CSV form has no percentile past 99; the two
// distributions of the long form do.
func parseBenchmark(report string, requests int) (benchmarked, error) {
	report = strings.ReplaceAll(report, "\r", "\n")
	match := throughputLine.FindStringSubmatch(report)
	if match == nil {
		return benchmarked{}, fmt.Errorf("redis-benchmark printed no throughput; it printed: %.200q", report)
	}
	var l benchmarked
	var err error
	if l.throughput, err = strconv.ParseFloat(match[1], 64); err != nil {
		return benchmarked{}, fmt.Errorf("read the throughput of redis-benchmark: %w", err)
	}
	points := percentileLine.FindAllStringSubmatch(report, -1)
	for _, want := range []struct {
		percent float64
		into    *float64
	}{{50, &l.p50}, {99, &l.p99}, {99.9, &l.p999}} {
		if *want.into, err = atPercent(points, want.percent); err != nil {
			return benchmarked{}, err
		}
	}
	l.curve = measure.Curve(requests, func(share float64) float64 {
		const printed = 0.0005                             // shares have three decimals
		latency, _ := atPercent(points, 100*share-printed) // 99.9 % are there, and so the last line is 100 %
		return latency
	})
	return l, nil
}

// atPercent is the least latency within which at least percent of the requests ended.
func atPercent(points [][]string, percent float64) (float64, error) {
	least, found := 0.0, false
	for _, point := range points {
		share, err1 := strconv.ParseFloat(point[1], 64)
		latency, err2 := strconv.ParseFloat(point[2], 64)
		none := point[3] == "0" // no request ended within this latency
		if err1 == nil && err2 == nil && !none && share >= percent && (!found || latency < least) {
			least, found = latency, true
		}
	}
	if !found {
		return 0, fmt.Errorf("redis-benchmark printed no latency for %v %%", percent)
	}
	return least, nil
}
