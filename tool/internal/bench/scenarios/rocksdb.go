package scenarios

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var rocksdb = runner.Scenario{
	Name:    "rocksdb",
	Summary: "compare allocators under RocksDB's own db_bench",
	Rounds:  measure.Rounds{Full: 5, Quick: 3},
	Needs:   []runner.Need{{Program: "db_bench", Package: "rocksdb-tools"}},
	Params: []runner.Param{
		{Name: "keys", Kind: runner.Number, Full: "1000000", Quick: "100000", Long: "10000000", Least: 1000, Help: "entries of the database"},
		{Name: "value", Kind: runner.Number, Full: "400", Least: 1, Help: "size of a value, in bytes"},
		{Name: "threads", Kind: runner.Number, Full: "4", Least: 1, Help: "concurrent threads that read or write"},
		{Name: "tests", Kind: runner.Words, Full: "fillrandom,readrandom,seekrandom,readwhilewriting", Quick: "fillrandom,readrandom",
			OneOf: []string{"fillrandom", "overwrite", "readrandom", "seekrandom", "readwhilewriting"}, Help: "db_bench's tests, one process each"},
	},
	Phases: func(values runner.Values) []runner.Phase {
		var list []runner.Phase
		for _, test := range values.Words("tests") {
			rows := append([]result.Row{runner.HigherRow(runner.MetricThroughput, "1/s")}, runner.LatencyRows(runner.MetricP50, runner.MetricP99, runner.MetricP999)...)
			list = append(list, runner.Phase{Name: test, Rows: append(rows, runner.ProgramRows()...),
				Do: func(ctx context.Context, v *runner.Visit) error { return dbBench(ctx, v, test) }})
		}
		return list
	},
}

// dbBench runs one test on the database of the visit. A filling test does keys operations in all, as
// more threads would make a larger database; the others do keys operations in all, too.
func dbBench(ctx context.Context, v *runner.Visit, test string) error {
	threads := v.Values.Number("threads")
	args := []string{
		"--benchmarks=" + test, "--db=" + filepath.Join(v.Dir, "db"), "--num=" + v.Values["keys"], "--value_size=" + v.Values["value"],
		"--threads=" + v.Values["threads"], "--seed=" + strconv.Itoa(v.Round+1), "--histogram=1", "--compression_type=none",
		"--disable_wal=1", "--cache_size=67108864", "--write_buffer_size=33554432",
	}
	each := strconv.Itoa(max(1, v.Values.Number("keys")/threads))
	switch test {
	case "fillrandom":
		args = append(args, "--writes="+each)
	case "overwrite":
		args = append(args, "--writes="+each, "--use_existing_db=1")
	default:
		args = append(args, "--reads="+each, "--use_existing_db=1")
	}
	out, err := v.Program(ctx, runner.ServerSpec{Name: "db_bench", Path: v.Paths["db_bench"], Args: args})
	if err != nil {
		return err
	}
	return recordDbBench(v.Set, test, out)
}

var (
	dbBenchRate  = regexp.MustCompile(`(?m)([a-z]+)\s+:\s+[0-9.]+ micros/op (\d+) ops/sec`)
	dbBenchShare = regexp.MustCompile(`Percentiles: P50: ([0-9.]+) .*P99: ([0-9.]+) P99\.9: ([0-9.]+)`)
)

// recordDbBench reads the output of db_bench, whose latencies are in microseconds.
func recordDbBench(set func(string, float64), test, out string) error {
	rate, share := dbBenchRate.FindStringSubmatch(out), dbBenchShare.FindStringSubmatch(out)
	if rate == nil || rate[1] != test || share == nil {
		return fmt.Errorf("db_bench printed no result of %s; it printed: %.300q", test, out)
	}
	number := func(text string) float64 { f, _ := strconv.ParseFloat(text, 64); return f } // the patterns hold digits only
	set(runner.MetricThroughput, number(rate[2]))
	for i, metric := range []string{runner.MetricP50, runner.MetricP99, runner.MetricP999} {
		set(metric, number(share[i+1])/1e3)
	}
	return nil
}
