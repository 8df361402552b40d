package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/granary-allocator/granary/tool/internal/bench/runner"

	"github.com/redis/go-redis/v9"
)

// memtier is not packaged everywhere, and so no need: where it is installed, the mixed part uses it, too.
var memtier = runner.Need{Program: "memtier_benchmark", Package: "memtier-benchmark"}

// memtierPhases send the request mix of the open-loop driver as fast as the server accepts it.
func (r *redisVisit) memtierPhases() []runner.Phase {
	program, err := memtier.Find()
	if err != nil {
		return nil
	}
	var list []runner.Phase
	for _, connections := range r.values.Numbers("connections") {
		list = append(list, runner.Phase{
			Name: fmt.Sprintf("GET and SET in turn, memtier_benchmark over %d connections", connections), Rows: benchmarkRows(),
			Do: func(ctx context.Context, v *runner.Visit) error { return r.memtier(ctx, v, program, connections) },
		})
	}
	return list
}

func (r *redisVisit) memtier(ctx context.Context, v *runner.Visit, program string, connections int) error {
	report := filepath.Join(v.Dir, "memtier.json")
	threads := 2
	if connections%threads != 0 {
		threads = 1
	}
	// The length is a number of requests, not a time: within a fixed time a faster allocator would store
	// more keys and need more memory later.
	args := []string{
		"--server=127.0.0.1", "--port=" + strconv.Itoa(r.port), "--protocol=redis", "--ratio=1:1", "--key-pattern=R:R", "--key-prefix=" + memtierPrefix,
		"--key-minimum=1", "--key-maximum=" + strconv.Itoa(r.memtierKeys()), "--data-size-range=100-1000", "--random-data", "--threads=" + strconv.Itoa(threads),
		"--clients=" + strconv.Itoa(connections/threads), "--requests=" + strconv.Itoa(max(1, r.keys/connections)),
		"--print-percentiles=50,99,99.9", "--hide-histogram", "--json-out-file=" + report,
	}
	if _, err := r.cpu(v); err != nil {
		return err
	}
	_, err := v.WatchShare(ctx, func(ctx context.Context, _ *runner.Load) error {
		_, err := v.Tool(ctx, program, args...)
		return err
	})
	if err != nil {
		return err
	}
	spent, err := r.cpu(v)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("read the report of memtier_benchmark: %w", err)
	}
	b, err := parseMemtier(text)
	b.record(v)
	v.Set(runner.MetricCPU, spent)
	if err != nil {
		return err
	}
	numbers := rand.New(rand.NewPCG(uint64(v.Round)+1, 11)).Perm(r.memtierKeys())
	return r.pipelined(ctx, numbers, func(p redis.Pipeliner, i int) { p.Del(ctx, memtierPrefix+strconv.Itoa(i+1)) })
}

const memtierPrefix = "memtier:"

// memtierKeys are few and are deleted afterwards, so that later phases start from the same data with and
// without memtier_benchmark.
func (r *redisVisit) memtierKeys() int { return max(1, r.keys/10) }

// parseMemtier reads the output of memtier_benchmark with --json-out-file; latencies in milliseconds.
func parseMemtier(text []byte) (benchmarked, error) {
	var report struct {
		All struct {
			Totals struct {
				Rate      float64        `json:"Ops/sec"`
				Latencies map[string]any `json:"Percentile Latencies"`
			} `json:"Totals"`
		} `json:"ALL STATS"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return benchmarked{}, fmt.Errorf("read the report of memtier_benchmark: %w", err)
	}
	totals := report.All.Totals
	b := benchmarked{throughput: totals.Rate}
	for name, into := range map[string]*float64{"p50.00": &b.p50, "p99.00": &b.p99, "p99.90": &b.p999} {
		value, ok := totals.Latencies[name].(float64)
		if !ok || totals.Rate <= 0 {
			return benchmarked{}, fmt.Errorf("memtier_benchmark reported no %s, or no requests; it wrote: %.300q", name, text)
		}
		*into = value
	}
	return b, nil
}
