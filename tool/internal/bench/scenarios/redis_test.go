package scenarios

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

func TestRedisFillsItsRows(t *testing.T) {
	r := measureOnce(t, redisScenario, "--requests", "2000", "--values", "3,5000", "--settle", "50ms", "--time", "300ms", "--rate", "500", "--connections", "3",
		"--parts", "values,mixed,pipelined,structures,churn,save,fall")
	value := func(phase, metric string) float64 {
		return r.Values("glibc", result.Key{Phase: phase, Metric: metric})[0]
	}
	used, low := value("filled, 5000 B", metricUsed), float64(2000*5000)
	if used < low || used > 2*low {
		t.Errorf("2,000 values of 5,000 bytes use %.0f bytes", used)
	}
	if left := value("3/4 deleted", metricUsed); left > used/2 {
		t.Errorf("three quarters deleted leave %.0f of %.0f bytes", left, used)
	}
	if before, after := value("start", metricUsed), value("refilled, 3000 B", metricUsed); after < before+1500*3000 {
		t.Errorf("refilled to %.0f bytes from %.0f", after, before)
	}
}

func TestEveryAllocatorDeletesTheSameKeys(t *testing.T) {
	r := redisVisit{keys: 500}
	if x, y := r.fallen(1), r.fallen(1); len(x) != 375 || x[0] != y[0] || x[374] != y[374] {
		t.Error("two allocators of a round delete different keys")
	}
	if x, y := r.fallen(1), r.fallen(2); x[0] == y[0] && x[1] == y[1] {
		t.Error("two rounds delete the same keys")
	}
}

func TestParseBenchmarkOfARecordedReport(t *testing.T) {
	text, err := os.ReadFile("testdata/set-100.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseBenchmark(string(text), 20000)
	curve := []float64{0.183, 0.655, 0.815, 0.911, 1.023, 1.143, 1.311, 1.751, 2.903, 4.175, 4.375, 4.743, 5.047, 5.087, 5.103}
	if err != nil || got.throughput != 46189.38 || got.p50 != 0.655 || got.p99 != 1.607 || got.p999 != 4.375 || len(got.curve) != len(curve) {
		t.Fatalf("load %+v, %v", got, err)
	}
	for i, latency := range curve { // the lines of the report, in its order
		if got.curve[i] != [2]float64{1 - math.Pow(2, -float64(i)), latency} {
			t.Errorf("point %d of the curve is %v, not %v ms", i, got.curve[i], latency)
		}
	}
	old := "SET: 0.00\rSET: 75123.51\r====== SET ======\n  20000 requests completed in 0.26 seconds\n\n" +
		"87.96% <= 0.400 milliseconds\n99.15% <= 1.001 milliseconds\n100.00% <= 2.007 milliseconds\n75471.70 requests per second\n"
	if got, err := parseBenchmark(old, 20000); err != nil || got.throughput != 75471.70 || got.p50 != 0.4 || got.p99 != 1.001 || got.p999 != 2.007 {
		t.Errorf("Redis 6.0's report gives %+v, %v", got, err)
	}
	for _, broken := range []string{"", "throughput summary: 1.0 requests per second"} {
		if _, err := parseBenchmark(broken, 1); err == nil {
			t.Errorf("%q is a report", broken)
		}
	}
}

func TestInfoNumber(t *testing.T) {
	text, err := os.ReadFile("testdata/info-memory.txt")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := infoNumber(string(text), "used_memory"); err != nil || v < 1e6 {
		t.Errorf("used_memory %v, %v", v, err)
	}
	if _, err := infoNumber(string(text), "used"); err == nil {
		t.Error("a prefix of a name is taken for it")
	}
}

// memtierScript replaces memtier_benchmark, which Debian does not package: it writes one of its keys with
// redis-cli, and the report that the real one writes.
const memtierScript = `#!/bin/sh
for word; do
  case $word in --port=*) port=${word#*=};; --json-out-file=*) out=${word#*=};; --key-prefix=*) prefix=${word#*=};; --ratio=1:1) mix=yes;; esac
done
[ "$mix" = yes ] || exit 3
redis-cli -p "$port" set "${prefix}1" value >&2 || exit 4
cat > "$out" <<'END'
{"configuration": {"ratio": "1:1"}, "ALL STATS": {"Runtime": {"Total duration": 1000},
 "Sets": {"Ops/sec": 10.0, "Percentile Latencies": {"p50.00": 9.0, "p99.00": 9.0, "p99.90": 9.0}},
 "Totals": {"Count": 4000, "Ops/sec": 4000.5, "Latency": 0.3,
	"Percentile Latencies": {"p50.00": 0.25, "p99.00": 1.5, "p99.90": 4.25, "Histogram log format": {"Compressed Histogram": "x"}}}}}
END
`

func TestWhereMemtierIsInstalledTheMixedPartUsesIt(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memtier_benchmark"), []byte(memtierScript), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	r := measureOnce(t, redisScenario, "--requests", "1000", "--time", "200ms", "--rate", "200", "--connections", "4", "--parts", "mixed,fall", "--values", "3", "--settle", "50ms")
	phase := "GET and SET in turn, memtier_benchmark over 4 connections"
	for metric, want := range map[string]float64{runner.MetricThroughput: 4000.5, runner.MetricP50: 0.25, runner.MetricP99: 1.5, runner.MetricP999: 4.25} {
		if got := r.Values("glibc", result.Key{Phase: phase, Metric: metric})[0]; got != want {
			t.Errorf("%s %v, want %v", metric, got, want)
		}
	}
	for _, text := range []string{"", "{}", `{"ALL STATS": {"Totals": {"Ops/sec": 1, "Percentile Latencies": {"p50.00": 1}}}}`} {
		if _, err := parseMemtier([]byte(text)); err == nil {
			t.Errorf("%q is a report", text)
		}
	}
}
