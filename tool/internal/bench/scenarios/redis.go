package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"
)

var redisScenario = runner.Scenario{
	Name:    "redis",
	Summary: "compare allocators under a real redis-server",
	About: "Fills it with values of several sizes, loads it with concurrent reads and writes, with pipelines, with structures, with values that expire " +
		"and while it saves; then deletes three quarters, refills with another size and flushes.",
	Examples: []cli.Example{
		{Line: "bench redis --quick", Does: "the short form, in under three minutes"},
		{Line: "bench redis --parts fall --values 5000 --allocators jemalloc,granary", Does: "only the memory after most of the data is deleted"},
	},
	Rounds: measure.Rounds{Full: 5, Quick: 3},
	Needs:  []runner.Need{{Program: "redis-server", Package: "redis-server"}, {Program: "redis-benchmark", Package: "redis-tools"}},
	Params: []runner.Param{
		{Name: "requests", Kind: runner.Number, Full: "300000", Quick: "30000", Long: "10000000", Least: 1000, Help: "requests of each test of redis-benchmark, and keys they are spread over"},
		{Name: "values", Kind: runner.Numbers, Full: "3,100,1000,5000", Long: "3,100,1000", Least: 1, Help: "sizes of the values, in bytes, one after another"},
		{Name: "refill", Kind: runner.Number, Full: "3000", Long: "600", Least: 1, Help: "size of the values written after three quarters are deleted"},
		{Name: "parts", Kind: runner.Words, Full: "values,mixed,pipelined,structures,churn,save,fall", Quick: "values,fall",
			OneOf: []string{"values", "mixed", "pipelined", "structures", "churn", "save", "fall"}, Help: "the phases"},
		{Name: "connections", Kind: runner.Numbers, Full: "16,64,256", Quick: "64", Least: 1, Help: "connections of the mixed part, one after another"},
		{Name: "rate", Kind: runner.Number, Full: "10000", Quick: "5000", Least: 100, Help: "requests a second of the mixed part and while saving"},
		{Name: "time", Kind: runner.Duration, Full: "10s", Quick: "3s", Long: "60s", Help: "of each step of the mixed, churn and save parts"},
		{Name: "settle", Kind: runner.Duration, Full: "2s", Help: "how long the server is left alone before its memory is read"},
	},
	Phases: redisPhases,
}

// A redisVisit is the state that the phases of one visit share.
type redisVisit struct {
	redisServer
	values   runner.Values
	keys     int
	startRSS float64
	lastCPU  float64
}

const (
	metricUsed  = "used memory"
	metricRatio = "RSS / used"
)

func redisPhases(values runner.Values) []runner.Phase {
	r := &redisVisit{values: values, keys: values.Number("requests")}
	parts := values.Words("parts")
	list := []runner.Phase{{Name: "start", Rows: memoryRows(runner.MetricRSS, metricUsed), Do: r.begin}}
	for _, part := range []struct {
		name   string
		phases func() []runner.Phase
	}{
		{"values", r.valuePhases}, {"mixed", r.mixedPhases}, {"mixed", r.memtierPhases}, {"pipelined", r.pipelinedPhases}, {"structures", r.structurePhases},
		{"churn", r.churnPhases}, {"save", r.savePhases}, {"fall", r.fallPhases},
	} {
		if slices.Contains(parts, part.name) {
			list = append(list, part.phases()...)
		}
	}
	return append(list, runner.WholePhase())
}

func memoryRows(metrics ...string) []result.Row {
	var out []result.Row
	for _, m := range metrics {
		unit := "bytes"
		if m == metricRatio {
			unit = "ratio"
		}
		out = append(out, runner.LowerRow(m, unit))
	}
	return out
}

func (r *redisVisit) begin(ctx context.Context, v *runner.Visit) (err error) {
	if err = r.start(ctx, v); err == nil {
		r.startRSS, err = r.memory(ctx, v)
	}
	return err
}

// memory records the server's RSS and its used memory.
func (r *redisVisit) memory(ctx context.Context, v *runner.Visit) (rss float64, err error) {
	used, err := r.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	if rss, err = v.RSS(); err != nil {
		return 0, err
	}
	v.Set(runner.MetricRSS, rss)
	v.Set(metricUsed, used)
	v.Set(metricRatio, rss/used)
	return rss, nil
}

// cpu is the server's CPU time since the last call.
func (r *redisVisit) cpu(v *runner.Visit) (float64, error) {
	now, err := v.Server.CPUSeconds()
	spent := now - r.lastCPU
	r.lastCPU = now
	return spent, err
}

func (r *redisVisit) valuePhases() []runner.Phase {
	var list []runner.Phase
	for _, size := range r.values.Numbers("values") {
		list = append(list,
			runner.Phase{Name: fmt.Sprintf("SET %d B", size), Rows: benchmarkRows(), Do: r.benchmark("set", size)},
			runner.Phase{Name: fmt.Sprintf("filled, %d B", size), Rows: memoryRows(runner.MetricRSS, metricUsed, metricRatio), Do: r.fill(size)},
			runner.Phase{Name: fmt.Sprintf("GET %d B", size), Rows: benchmarkRows(), Do: r.benchmark("get", size)})
	}
	return list
}

func benchmarkRows() []result.Row {
	rows := []result.Row{runner.HigherRow(runner.MetricThroughput, "1/s")}
	rows = append(rows, runner.LatencyRows(runner.MetricP50, runner.MetricP99, runner.MetricP999)...)
	return append(rows, runner.LowerRow(runner.MetricCPU, "s"), runner.ShareRow())
}

func (r *redisVisit) benchmark(test string, size int, more ...string) func(context.Context, *runner.Visit) error {
	return func(ctx context.Context, v *runner.Visit) error {
		if _, err := r.cpu(v); err != nil {
			return err
		}
		var b benchmarked
		_, err := v.WatchShare(ctx, func(ctx context.Context, _ *runner.Load) (err error) {
			b, err = redisBenchmark(ctx, v, r.port, test, size, more...)
			return err
		})
		if err != nil {
			return err
		}
		spent, err := r.cpu(v)
		b.record(v)
		v.Set(runner.MetricCPU, spent)
		return err
	}
}

// fill writes the keys that the random ones of redis-benchmark left out or left at another size, so
// that the live bytes are the same for every allocator.
func (r *redisVisit) fill(size int) func(context.Context, *runner.Visit) error {
	return func(ctx context.Context, v *runner.Visit) error {
		if err := r.put(ctx, r.shuffled(v.Round, uint64(size)), size); err != nil {
			return err
		}
		_, err := r.memory(ctx, v)
		return err
	}
}

// shuffled is every key in a random order that depends on the round alone, not on the allocator.
func (r *redisVisit) shuffled(round int, salt uint64) []int {
	return rand.New(rand.NewPCG(uint64(round)+1, salt)).Perm(r.keys)
}

// fallen are the three quarters of the keys that are deleted.
func (r *redisVisit) fallen(round int) []int { return r.shuffled(round, 1<<32)[:r.keys*3/4] }

func (r *redisVisit) fallPhases() []runner.Phase {
	after := func(metric string) string { return metric + " after " + r.values["settle"] }
	settled := []result.Row{runner.LowerRow(after(runner.MetricRSS), "bytes")}
	var list []runner.Phase
	if !slices.Contains(r.values.Words("parts"), "values") {
		sizes := r.values.Numbers("values")
		size := sizes[len(sizes)-1]
		list = append(list, runner.Phase{Name: fmt.Sprintf("filled, %d B", size), Rows: memoryRows(runner.MetricRSS, metricUsed, metricRatio), Do: r.fill(size)})
	}
	return append(list,
		runner.Phase{Name: "3/4 deleted", Rows: append(append(memoryRows(metricUsed), settled...), runner.LowerRow(after(metricRatio), "ratio")), Do: r.fall},
		runner.Phase{Name: fmt.Sprintf("refilled, %d B", r.values.Number("refill")), Rows: memoryRows(runner.MetricRSS, metricUsed, metricRatio), Do: r.refill},
		runner.Phase{Name: "flushed", Rows: append(settled, runner.LowerRow(after("RSS / start"), "ratio")), Do: r.flush})
}

func (r *redisVisit) fall(ctx context.Context, v *runner.Visit) error {
	if err := r.remove(ctx, r.fallen(v.Round)); err != nil {
		return err
	}
	used, err := r.info(ctx, "memory", "used_memory")
	if err != nil {
		return err
	}
	rss, err := r.settle(ctx, v)
	v.Set(metricUsed, used)
	v.Set(metricRatio+" after "+r.values["settle"], rss/used)
	return err
}

func (r *redisVisit) refill(ctx context.Context, v *runner.Visit) error {
	if err := r.put(ctx, r.fallen(v.Round), r.values.Number("refill")); err != nil {
		return err
	}
	_, err := r.memory(ctx, v)
	return err
}

func (r *redisVisit) flush(ctx context.Context, v *runner.Visit) error {
	if err := r.client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("flush redis-server: %w", err)
	}
	rss, err := r.settle(ctx, v)
	v.Set("RSS / start after "+r.values["settle"], rss/r.startRSS)
	return err
}

// settle leaves the server idle and records its RSS afterwards.
func (r *redisVisit) settle(ctx context.Context, v *runner.Visit) (float64, error) {
	if _, err := v.Settle(ctx, r.values.Duration("settle")); err != nil {
		return 0, err
	}
	rss, err := v.RSS()
	v.Set(runner.MetricRSS+" after "+r.values["settle"], rss)
	return rss, err
}
