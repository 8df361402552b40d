package services

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/scenario"
)

// benchmarked holds the figures that redis-benchmark prints for one test; latencies are in milliseconds.
type benchmarked struct{ throughput, p50, p99, p999 float64 }

// redisBenchmark runs one test of redis-benchmark over the scenario's keys.
func redisBenchmark(ctx context.Context, v *scenario.Visit, port int, test string, size int, more ...string) (benchmarked, error) {
	args := append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", test, "-n", v.Values["requests"],
		"-r", v.Values["requests"], "-d", strconv.Itoa(size), "--precision", "3"}, more...)
	out, err := v.Tool(ctx, v.Paths["redis-benchmark"], args...)
	if err != nil {
		return benchmarked{}, err
	}
	return parseBenchmark(out)
}

var (
	throughputLine = regexp.MustCompile(`(?m)^\s*(?:throughput summary: )?([0-9.]+) requests per second`) // bare before Redis 6.2
	percentileLine = regexp.MustCompile(`(?m)^([0-9.]+)% <= ([0-9.]+) milliseconds`)
)

// parseBenchmark reads the long report of redis-benchmark. Its CSV form has no percentile past 99; the two
// distributions of the long form do.
func parseBenchmark(report string) (benchmarked, error) {
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
	return l, nil
}

// atPercent is the least latency within which at least percent of the requests ended.
func atPercent(points [][]string, percent float64) (float64, error) {
	least, found := 0.0, false
	for _, point := range points {
		share, err1 := strconv.ParseFloat(point[1], 64)
		latency, err2 := strconv.ParseFloat(point[2], 64)
		if err1 == nil && err2 == nil && share >= percent && (!found || latency < least) {
			least, found = latency, true
		}
	}
	if !found {
		return 0, fmt.Errorf("redis-benchmark printed no latency for %v %%", percent)
	}
	return least, nil
}
