package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// measureOnce runs a scenario's command under the system's allocator for one small round.
func measureOnce(t *testing.T, s runner.Scenario, args ...string) result.Results {
	t.Helper()
	for _, need := range s.Needs {
		if _, err := need.Find(); err != nil {
			t.Skip(err)
		}
	}
	path := filepath.Join(t.TempDir(), "results.json")
	var out bytes.Buffer
	env := cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()}
	args = append([]string{"--quick", "--allocators", "glibc", "--rounds", "1", "--json", path}, args...)
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	act := s.Command().Setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := act(context.Background(), env, nil)
	data, readErr := os.ReadFile(path)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var r result.Results
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) > 0 {
		t.Errorf("failures %+v", r.Failures)
	}
	for _, row := range r.Rows {
		if optional(row) {
			continue
		}
		if v, ok := r.Values("glibc", row.Key())[0]; !ok || v < 0 || math.IsNaN(v) {
			t.Errorf("%s, %s: %v, measured: %v", row.Phase, row.Metric, v, ok)
		}
	}
	return r
}

// optional rows are empty where the kernel gives no samples, or too few, or lets no control group be made.
func optional(row result.Row) bool {
	return row.Metric == runner.MetricShare || row.Metric == runner.MetricGroupPeak || row.Metric == runner.MetricGroupKernel
}

func TestMariadbFillsItsRows(t *testing.T) {
	r := measureOnce(t, mariadb, "--threads", "2,8", "--time", "1s", "--rows", "1000", "--workloads", "oltp_read_only,oltp_read_write", "--settle", "100ms")
	shares(t, r)
	for _, phase := range []string{"oltp_read_only, 2 threads", "oltp_read_write, 8 threads"} {
		cost := r.Values("glibc", result.Key{Phase: phase, Metric: cpuPerTrans})[0]
		if cost < 0.01 || cost > 100 {
			t.Errorf("%s: %v ms of CPU a transaction", phase, cost)
		}
	}
}

// In an image there is no /etc/hosts, and root's folder for temporary files may be closed to the server's user. The test
// runs itself there, for the table alone.
func TestMariadbIsPreparedWithoutHostNames(t *testing.T) {
	if os.Getenv("GRANARY_TEST_NO_HOSTS") != "" {
		if _, err := net.LookupHost("localhost"); err == nil {
			t.Skip("localhost resolves without /etc/hosts")
		}
		measureOnce(t, mariadb, "--threads", "2", "--time", "1s", "--rows", "1000", "--settle", "100ms")
		return
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind /dev/null /etc/hosts && exec "$0" -test.v -test.run=WithoutHostNames`, os.Args[0])
	closed, err := os.MkdirTemp("", "g") // short: the path of a socket has at most 107 letters
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(closed)
	if err := os.Chmod(closed, 0o711); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "GRANARY_TEST_NO_HOSTS=1", "TMPDIR="+closed)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("unshare failed")) || bytes.Contains(out, []byte("mount: ")) || bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestParseSysbenchOfARecordedReport(t *testing.T) {
	text, err := os.ReadFile("testdata/sysbench.txt")
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseSysbench(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var counted uint64
	for _, b := range r.latency {
		counted += b.count
	}
	if float64(counted) != r.transactions || r.perSecond < r.transactions/1.2 || r.perSecond > r.transactions*1.2 {
		t.Errorf("%v transactions, %v a second, %d in the histogram", r.transactions, r.perSecond, counted)
	}
	// sysbench's own 95th percentile is interpolated less finely; the order must hold.
	if p50, p99 := r.latency.quantile(0.5), r.latency.quantile(0.99); p50 < 1 || p50 > p99 || p99 > 20 {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	for _, broken := range []string{"", "transactions: none", "Threads started!\n 1.0 |"} {
		if _, err := parseSysbench(broken); err == nil {
			t.Errorf("%q is a report", broken)
		}
	}
}

func TestQuantilesOfAHistogram(t *testing.T) {
	h := histogram{{1, 50}, {2, 40}, {3, 9}, {10, 1}}
	for q, want := range map[float64]float64{0.5: 1, 0.51: 2, 0.9: 2, 0.99: 3, 0.999: 10, 1: 10} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestScenariosAreWellFormed(t *testing.T) {
	names := map[string]bool{}
	for _, s := range All {
		if names[s.Name] || strings.ContainsAny(s.Name, " _") || s.Summary == "" || s.Rounds.Full < 5 || s.Rounds.Quick < 1 {
			t.Errorf("scenario %+v", s)
		}
		names[s.Name] = true
		for _, size := range []runner.Size{runner.Full, runner.Quick, runner.Long} {
			values, err := runner.Resolve(s.Params, size)
			if err != nil {
				t.Errorf("%s %s: %v", s.Name, size, err)
			}
			seen := map[result.Key]bool{}
			for _, row := range s.Rows(values) {
				if seen[row.Key()] {
					t.Errorf("%s has two rows %+v", s.Name, row.Key())
				}
				seen[row.Key()] = true
			}
		}
	}
}
