package redis

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"granary/tool/internal/bench/run"
)

// Load is what redis-benchmark says about one test; latencies in milliseconds.
type Load struct{ Throughput, P50, P99, P999 float64 }

// Load runs one test of redis-benchmark over keys random keys.
func (s *Server) Load(ctx context.Context, tools Tools, environ []string, test string, requests, keys, size int) (Load, error) {
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-t", test, "-n", strconv.Itoa(requests),
		"-r", strconv.Itoa(keys), "-d", strconv.Itoa(size), "--precision", "3"}
	out, err := run.Output(ctx, tools.Benchmark, args, run.Clean(environ))
	if err != nil {
		return Load{}, err
	}
	return parseLoad(out)
}

var (
	throughputLine = regexp.MustCompile(`throughput summary: ([0-9.]+) requests per second`)
	percentileLine = regexp.MustCompile(`(?m)^([0-9.]+)% <= ([0-9.]+) milliseconds`)
)

// parseLoad reads the long report of redis-benchmark. Its CSV form has no percentile past 99; the two
// distributions of the long form do.
func parseLoad(report string) (Load, error) {
	match := throughputLine.FindStringSubmatch(report)
	if match == nil {
		return Load{}, fmt.Errorf("redis-benchmark printed no throughput; it printed: %.200q", report)
	}
	var l Load
	var err error
	if l.Throughput, err = strconv.ParseFloat(match[1], 64); err != nil {
		return Load{}, fmt.Errorf("read the throughput of redis-benchmark: %w", err)
	}
	points := percentileLine.FindAllStringSubmatch(strings.ReplaceAll(report, "\r", "\n"), -1)
	for _, want := range []struct {
		percent float64
		into    *float64
	}{{50, &l.P50}, {99, &l.P99}, {99.9, &l.P999}} {
		if *want.into, err = atPercent(points, want.percent); err != nil {
			return Load{}, err
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
