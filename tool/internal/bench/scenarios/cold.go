package scenarios

import (
	"context"
	"errors"
	"fmt"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/cold"
	"github.com/granary-allocator/granary/tool/internal/procfs"

	"github.com/redis/go-redis/v9"
)

var coldData = runner.Scenario{
	Name:    "cold",
	Summary: "compare allocators when half of the data of a redis-server becomes cold, is paged out and returns",
	About: "Two data sets, exchanged by SWAPDB. While clients read one, the pages of the other, which no client accesses, are paged out to swap. " +
		"Then it is read again. Needs root, swap, and one of the sources that docs/guides/cold-memory.md names. All private memory of the server may be " +
		"paged out, under each allocator.",
	Examples: []cli.Example{{Line: "bench cold --quick", Does: "100,000 keys in each data set"}},
	Rounds:   measure.Rounds{Full: 5, Quick: 3},
	Needs:    []runner.Need{{Program: "redis-server", Package: "redis-server"}},
	Params: []runner.Param{
		{Name: "keys", Kind: runner.Number, Full: "400000", Quick: "100000", Long: "2000000", Least: 1000, Help: "keys of each data set"},
		{Name: "size", Kind: runner.Number, Full: "100", Least: 1, Help: "size of the values, in bytes"},
		{Name: "rate", Kind: runner.Number, Full: "2000", Least: 100, Help: "requests a second, of 50 keys each"},
		{Name: "connections", Kind: runner.Number, Full: "16", Least: 1, Help: "connections of the clients"},
		{Name: "time", Kind: runner.Duration, Full: "15s", Quick: "6s", Long: "60s", Help: "duration of each load; memory is cold after a third of it"},
	},
	Privileged: true,
	Prepare:    prepareCold,
	Phases:     coldPhases,
}

func prepareCold(context.Context, *runner.Shared) error {
	if err := cold.NeedSwap(procfs.Live()); err != nil {
		return err
	}
	return cold.NeedSource(procfs.Live())
}

const (
	metricPagedOut    = "paged out"
	metricMajorFaults = "major faults"
)

func coldPhases(values runner.Values) []runner.Phase {
	r := &redisVisit{values: values, keys: values.Number("keys")}
	memory := memoryRows(runner.MetricRSS, metricUsed, metricRatio)
	with := func(rows ...result.Row) []result.Row { return append(openRows(), rows...) }
	return []runner.Phase{
		{Name: "two data sets", Rows: memory, Do: r.fillTwo},
		{Name: "MGET of one", Rows: openRows(), Do: r.getAll},
		{Name: "the other one goes out", Rows: with(append(memory, runner.HigherRow(metricPagedOut, "bytes"))...), Do: r.getAndPageOut},
		{Name: "MGET of one, the other one is out", Rows: openRows(), Do: r.getAll},
		{Name: "the other one comes back", Rows: with(append(memory, runner.LowerRow(metricMajorFaults, "count"))...), Do: r.comeBack},
		runner.WholePhase(),
	}
}

// fillTwo writes a data set, moves it to database 1, and writes the other one.
func (r *redisVisit) fillTwo(ctx context.Context, v *runner.Visit) error {
	if err := r.start(ctx, v); err != nil {
		return err
	}
	for data := range uint64(2) {
		if err := r.put(ctx, r.shuffled(v.Round, data), r.values.Number("size")); err != nil {
			return err
		}
		if data == 0 {
			if err := r.swap(ctx); err != nil {
				return err
			}
		}
	}
	_, err := r.memory(ctx, v)
	return err
}

// swap exchanges the data sets.
func (r *redisVisit) swap(ctx context.Context) error {
	if err := r.client.Do(ctx, "SWAPDB", 0, 1).Err(); err != nil {
		return fmt.Errorf("exchange the databases: %w", err)
	}
	return nil
}

// batchOfKeys is how many keys a request reads: enough for all keys to be read while memory becomes cold.
const batchOfKeys = 50

// getAll reads all keys of database 0, again and again.
func (r *redisVisit) getAll(ctx context.Context, v *runner.Visit) error {
	return r.open(ctx, v, r.values.Number("connections"), func(ctx context.Context, c *redis.Client, n int) error {
		names := make([]string, batchOfKeys)
		for i := range names {
			names[i] = redisKey((n*batchOfKeys + i) % r.keys)
		}
		return c.MGet(ctx, names...).Err()
	})
}

// getAndPageOut pages out while the load lasts.
func (r *redisVisit) getAndPageOut(ctx context.Context, v *runner.Visit) error {
	paging := cold.Paging{Older: r.values.Duration("time") / 3, Rate: 64 << 20, Keep: true, Any: true}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	type end struct {
		outcome cold.Outcome
		err     error
	}
	ended := make(chan end, 1)
	go func() {
		o, err := paging.PageOut(inner, procfs.Live(), v.Server.PID(), func(cold.Step) error { return nil })
		ended <- end{o, err}
	}()
	err := r.getAll(ctx, v)
	stop()
	paged := <-ended
	if err := errors.Join(err, paged.err); err != nil {
		return err
	}
	v.Set(metricPagedOut, float64(paged.outcome.Out))
	_, err = r.memory(ctx, v)
	return err
}

// comeBack reads the data set that is out.
func (r *redisVisit) comeBack(ctx context.Context, v *runner.Visit) error {
	before, err := procfs.Live().Stat(v.Server.PID())
	if err != nil {
		return err
	}
	if err := errors.Join(r.swap(ctx), r.getAll(ctx, v)); err != nil {
		return err
	}
	after, err := procfs.Live().Stat(v.Server.PID())
	if err != nil {
		return err
	}
	v.Set(metricMajorFaults, float64(after.MajorFaults-before.MajorFaults))
	_, err = r.memory(ctx, v)
	return err
}
