package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var kv = runner.Scenario{
	Name:    "kv",
	Summary: "compare allocators under a small threaded key-value server that mallocs every item",
	About:   "Reports the share of the server's CPU time in the allocator's own code, if the kernel allows samples (root, or kernel.perf_event_paranoid at most 2).",
	Rounds:  measure.Rounds{Full: 5, Quick: 3},
	Needs:   []runner.Need{{Program: "kv_server"}, {Program: "redis-benchmark", Package: "redis-tools"}},
	Params: []runner.Param{
		{Name: "requests", Kind: runner.Number, Full: "1000000", Quick: "300000", Long: "10000000", Least: 1000, Help: "inserts of each size, and keys they are spread over"},
		{Name: "values", Kind: runner.Numbers, Full: "100,1000,5000", Quick: "100,1000", Long: "100,1000", Least: 1, Help: "sizes of the values, in bytes, one after another"},
		{Name: "threads", Kind: runner.Number, Full: "2", Least: 1, Help: "threads of the server"},
		{Name: "connections", Kind: runner.Number, Full: "50", Least: 1, Help: "connections of the load"},
		{Name: "pipeline", Kind: runner.Number, Full: "16", Least: 1, Help: "requests sent before an answer is awaited"},
		{Name: "settle", Kind: runner.Duration, Full: "2s", Help: "how long the server is left alone before its memory is read"},
	},
	Phases: kvPhases,
}

const metricLive = "RSS / live"

// A kvVisit is the state that the phases of one visit share.
type kvVisit struct {
	redisServer
	keys int
}

func kvPhases(values runner.Values) []runner.Phase {
	k := &kvVisit{keys: values.Number("requests")}
	list := []runner.Phase{runner.StartPhase(k.start)}
	for _, size := range values.Numbers("values") {
		for _, test := range []string{"set", "get"} {
			list = append(list, runner.Phase{
				Name: fmt.Sprintf("%s %d B", test, size), Rows: benchmarkRows(),
				Do: func(ctx context.Context, v *runner.Visit) error { return k.load(ctx, v, test, size) },
			})
		}
		list = append(list, runner.Phase{
			Name: fmt.Sprintf("filled, %d B", size), Rows: []result.Row{runner.LowerRow(runner.MetricRSS, "bytes"), runner.LowerRow(metricLive, "ratio")},
			Do: func(ctx context.Context, v *runner.Visit) error { return k.fill(ctx, v, size) },
		})
	}
	return append(list, runner.Phase{Name: "3/4 deleted", Rows: []result.Row{runner.LowerRow(runner.MetricRSS, "bytes")}, Do: k.fall},
		runner.Phase{Name: "flushed", Rows: []result.Row{runner.LowerRow(runner.MetricRSS, "bytes")}, Do: k.flush}, runner.WholePhase())
}

func (k *kvVisit) start(ctx context.Context, v *runner.Visit) (err error) {
	if k.port, err = v.FreePort(); err != nil {
		return err
	}
	err = v.Start(ctx, runner.ServerSpec{
		Name: "kv_server", Path: v.Paths["kv_server"], Args: []string{"port=" + strconv.Itoa(k.port), "threads=" + v.Values["threads"]},
		Ready: k.ping, ReadyLimit: 60 * time.Second,
	})
	if err == nil {
		k.client = k.connect(1)
	}
	return err
}

func (k *kvVisit) load(ctx context.Context, v *runner.Visit, test string, size int) error {
	var b benchmarked
	seen, err := v.WatchShare(ctx, func(ctx context.Context, _ *runner.Load) (err error) {
		b, err = redisBenchmark(ctx, v, k.port, test, size, "-c", v.Values["connections"], "-P", v.Values["pipeline"])
		return err
	})
	if err != nil {
		return err
	}
	b.record(v)
	v.Set(runner.MetricCPU, seen.CPUSeconds)
	return nil
}

func (k *kvVisit) shuffled(round int) []int {
	return rand.New(rand.NewPCG(uint64(round)+1, 3)).Perm(k.keys)
}

// fill writes the keys that the random ones left out, so that the live bytes are known.
func (k *kvVisit) fill(ctx context.Context, v *runner.Visit, size int) error {
	if err := k.put(ctx, k.shuffled(v.Round), size); err != nil {
		return err
	}
	rss, err := v.RSS()
	v.Set(runner.MetricRSS, rss)
	v.Set(metricLive, rss/float64(k.keys*(size+len(redisKey(0)))))
	return err
}

func (k *kvVisit) fall(ctx context.Context, v *runner.Visit) error {
	if err := k.remove(ctx, k.shuffled(v.Round)[:k.keys*3/4]); err != nil {
		return err
	}
	return k.settle(ctx, v)
}

func (k *kvVisit) flush(ctx context.Context, v *runner.Visit) error {
	if err := k.client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("flush kv_server: %w", err)
	}
	return k.settle(ctx, v)
}

func (k *kvVisit) settle(ctx context.Context, v *runner.Visit) error {
	if _, err := v.Settle(ctx, v.Values.Duration("settle")); err != nil {
		return err
	}
	rss, err := v.RSS()
	v.Set(runner.MetricRSS, rss)
	return err
}
