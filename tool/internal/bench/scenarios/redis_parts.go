package scenarios

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"

	"github.com/redis/go-redis/v9"
)

// openRows are the rows of the open-loop driver.
func openRows() []result.Row {
	rows := runner.LatencyRows(runner.MetricP50, runner.MetricP90, runner.MetricP99, runner.MetricP999, runner.MetricMax)
	return append([]result.Row{runner.HigherRow(runner.MetricThroughput, "1/s")}, append(rows, runner.LowerRow("server CPU a request", "us"), runner.ShareRow())...)
}

func (r *redisVisit) mixedPhases() []runner.Phase {
	var list []runner.Phase
	for _, connections := range r.values.Numbers("connections") {
		list = append(list, runner.Phase{
			Name: fmt.Sprintf("GET and SET in turn, %s/s over %d connections", r.values["rate"], connections), Rows: openRows(),
			Do: func(ctx context.Context, v *runner.Visit) error {
				return r.open(ctx, v, connections, r.getSet(v.Round))
			},
		})
	}
	return list
}

// getSet is a request of the mixed load: every other one writes a value of 100 to 1,000 bytes.
func (r *redisVisit) getSet(round int) func(ctx context.Context, c *redis.Client, n int) error {
	value := strings.Repeat("v", 1000)
	return func(ctx context.Context, c *redis.Client, n int) error {
		dice := rand.New(rand.NewPCG(uint64(round), uint64(n)))
		name := redisKey(dice.IntN(r.keys))
		if n%2 == 0 {
			return c.Set(ctx, name, value[:100+dice.IntN(900)], 0).Err()
		}
		if err := c.Get(ctx, name).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return nil
	}
}

// open sends requests at the scenario's rate and records the driver's throughput and latencies.
func (r *redisVisit) open(ctx context.Context, v *runner.Visit, connections int, request func(context.Context, *redis.Client, int) error) error {
	clients := make([]*redis.Client, connections)
	for i := range clients {
		clients[i] = r.connect(1)
		defer clients[i].Close()
		if err := clients[i].Ping(ctx).Err(); err != nil {
			return fmt.Errorf("open connection %d to redis-server: %w", i+1, err)
		}
	}
	var outcome measure.LoadOutcome
	seen, err := v.WatchShare(ctx, func(ctx context.Context, l *runner.Load) (err error) {
		l.Begin()
		outcome, err = measure.RunLoad(ctx, measure.LoadPlan{
			Rate: float64(r.values.Number("rate")), Duration: r.values.Duration("time"), Connections: connections,
			Do: func(ctx context.Context, connection, n int) error { return request(ctx, clients[connection], n) },
		})
		l.End()
		return err
	})
	if err != nil {
		return err
	}
	recordOutcome(v, outcome)
	v.Set("server CPU a request", seen.CPUSeconds/float64(outcome.Requests)*1e6)
	return nil
}

// recordOutcome records the rows of openRows but CPU, the curve of latencies, and the latencies over time.
func recordOutcome(v *runner.Visit, o measure.LoadOutcome) {
	v.Set(runner.MetricThroughput, o.Throughput())
	for _, q := range []struct {
		metric string
		share  float64
	}{{runner.MetricP50, 0.5}, {runner.MetricP90, 0.9}, {runner.MetricP99, 0.99}, {runner.MetricP999, 0.999}} {
		v.Set(q.metric, o.Milliseconds(q.share))
	}
	v.Set(runner.MetricMax, o.Worst())
	v.Trace(result.MetricCurve, "ms", o.Curve())
	interval, buckets := o.Over()
	v.Count(result.Histogram{Metric: result.MetricLatencies, Unit: "ms", Interval: interval.Seconds(), Buckets: buckets})
}

func (r *redisVisit) pipelinedPhases() []runner.Phase {
	var list []runner.Phase
	for _, test := range []string{"set", "get"} {
		name := fmt.Sprintf("%s 100 B, pipelines of 16", strings.ToUpper(test))
		list = append(list, runner.Phase{Name: name, Rows: benchmarkRows(), Do: r.benchmark(test, 100, "-P", "16")})
	}
	return list
}

// structures are the types beside strings: each key holds many small elements.
var structures = []struct {
	name string
	add  func(ctx context.Context, p redis.Pipeliner, key string, i int)
}{
	{"hashes", func(ctx context.Context, p redis.Pipeliner, key string, i int) {
		p.HSet(ctx, "h"+key, fmt.Sprint("field", i), fmt.Sprint("value", i))
	}},
	{"lists", func(ctx context.Context, p redis.Pipeliner, key string, i int) {
		p.RPush(ctx, "l"+key, fmt.Sprint("element ", i))
	}},
	{"sorted sets", func(ctx context.Context, p redis.Pipeliner, key string, i int) {
		p.ZAdd(ctx, "z"+key, redis.Z{Score: float64(i), Member: fmt.Sprint("member", i)})
	}},
	{"streams", func(ctx context.Context, p redis.Pipeliner, key string, i int) {
		p.XAdd(ctx, &redis.XAddArgs{Stream: "x" + key, Values: []string{"field", fmt.Sprint(i)}})
	}},
}

func (r *redisVisit) structurePhases() []runner.Phase {
	var list []runner.Phase
	for _, s := range structures {
		rows := append(memoryRows(runner.MetricRSS, metricUsed, metricRatio), runner.LowerRow(runner.MetricCPU, "s"))
		list = append(list, runner.Phase{Name: s.name, Rows: rows, Do: func(ctx context.Context, v *runner.Visit) error {
			if _, err := r.cpu(v); err != nil {
				return err
			}
			// 200 elements a key: more than Redis keeps in one packed block.
			err := r.pipelined(ctx, r.shuffled(v.Round, 7), func(p redis.Pipeliner, i int) { s.add(ctx, p, fmt.Sprint(i/200), i) })
			if err != nil {
				return err
			}
			spent, err := r.cpu(v)
			if err != nil {
				return err
			}
			v.Set(runner.MetricCPU, spent)
			_, err = r.memory(ctx, v)
			return err
		}})
	}
	return list
}

func (r *redisVisit) churnPhases() []runner.Phase {
	rows := append(openRows(), memoryRows(runner.MetricRSS, metricUsed, metricRatio)...)
	return []runner.Phase{{Name: "churn of random sizes that expire", Rows: rows, Do: func(ctx context.Context, v *runner.Visit) error {
		value := strings.Repeat("c", 16<<10)
		err := r.open(ctx, v, 16, func(ctx context.Context, c *redis.Client, n int) error {
			dice := rand.New(rand.NewPCG(uint64(v.Round), uint64(n)))
			size := int(math.Exp2(4 + 10*dice.Float64())) // 16 B to 16 KiB, each doubling as likely
			life := time.Duration(dice.ExpFloat64()*1000+1) * time.Millisecond
			return c.Set(ctx, fmt.Sprint("churn:", dice.IntN(r.keys)), value[:size], life).Err()
		})
		if err != nil {
			return err
		}
		_, err = r.memory(ctx, v)
		return err
	}}}
}

const metricCopied = "copied on write"

func (r *redisVisit) savePhases() []runner.Phase {
	rows := append(openRows(), runner.LowerRow(metricCopied, "bytes"))
	return []runner.Phase{{Name: "BGSAVE under writes", Rows: rows, Do: func(ctx context.Context, v *runner.Visit) error {
		if err := r.client.BgSave(ctx).Err(); err != nil {
			return fmt.Errorf("start BGSAVE: %w", err)
		}
		if err := r.open(ctx, v, 16, r.getSet(v.Round)); err != nil {
			return err
		}
		for {
			running, err := r.info(ctx, "persistence", "rdb_bgsave_in_progress")
			if err != nil {
				return err
			}
			if running == 0 {
				break
			}
			if err := runner.Sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		copied, err := r.info(ctx, "persistence", "rdb_last_cow_size")
		v.Set(metricCopied, copied)
		return err
	}}}
}
