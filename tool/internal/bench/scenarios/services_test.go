package scenarios

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

func TestKvFillsItsRows(t *testing.T) {
	// Enough for some thirty samples within the allocator: of three expected samples, none may occur.
	r := measureOnce(t, kv, "--requests", "800000", "--values", "100", "--settle", "50ms")
	if share, ok := r.Values("glibc", result.Key{Phase: "set 100 B", Metric: runner.MetricShare})[0]; ok && (share < 0.1 || share > 60) {
		t.Errorf("the allocator's share is %v %%", share)
	}
	if ratio := r.Values("glibc", result.Key{Phase: "filled, 100 B", Metric: metricLive})[0]; ratio < 1 || ratio > 10 {
		t.Errorf("RSS / live is %v", ratio)
	}
}

// shares wants the allocator's share of the CPU time in some phase of results, where the kernel gives samples.
func shares(t *testing.T, r result.Results) {
	t.Helper()
	sampler, err := cpushare.Start(procfs.Live(), []int{os.Getpid()}, 100)
	if errors.Is(err, cpushare.ErrNotAllowed) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	sampler.Stop(func(int) []cpushare.Range { return nil })
	most := 0.0
	for _, row := range r.Rows {
		if row.Metric == runner.MetricShare {
			most = max(most, r.Values("glibc", row.Key())[0])
		}
	}
	if most <= 0 || most > 80 {
		t.Errorf("%s: the allocator's share of the CPU time is at most %v %%", r.Scenario, most)
	}
}

func TestNginxFillsItsRows(t *testing.T) {
	shares(t, measureOnce(t, nginx, "--time", "1s", "--connections", "8", "--settle", "50ms"))
}

func TestMemcachedFillsItsRows(t *testing.T) {
	measureOnce(t, memcached, "--time", "300ms", "--rate", "500", "--connections", "3", "--settle", "50ms")
}

func TestPostgresFillsItsRows(t *testing.T) {
	shares(t, measureOnce(t, postgres, "--time", "1s", "--clients", "2", "--scale", "1", "--settle", "50ms"))
}

func TestRocksdbFillsItsRows(t *testing.T) {
	shares(t, measureOnce(t, rocksdb, "--keys", "20000", "--tests", "fillrandom,readrandom,seekrandom,readwhilewriting"))
}

func TestColdFillsItsRows(t *testing.T) {
	if swap, err := procfs.Live().Swap(); err != nil || swap.Total == 0 || os.Geteuid() != 0 {
		t.Skip("this test needs root and swap: ", err)
	}
	r := measureOnce(t, coldData, "--keys", "20000", "--time", "3s", "--connections", "4")
	value := func(phase, metric string) float64 {
		return r.Values("glibc", result.Key{Phase: phase, Metric: metric})[0]
	}
	full, out, back := value("two data sets", runner.MetricRSS), value("the other one goes out", runner.MetricRSS), value("the other one comes back", runner.MetricRSS)
	// 20,000 values of 100 bytes with their keys are 3 MB or more.
	if paged := value("the other one goes out", metricPagedOut); paged < 3e6 || out > full-2e6 || back < out+2e6 {
		t.Errorf("RSS is %.0f bytes with both data sets, %.0f after %.0f were paged out, %.0f after they came back", full, out, paged, back)
	}
	if faults := value("the other one comes back", metricMajorFaults); faults < 100 {
		t.Errorf("%v major faults brought the data back", faults)
	}
}

func TestPythonAndNodeFillTheirRows(t *testing.T) {
	t.Run("python", func(t *testing.T) { shares(t, measureOnce(t, python, "--size", "1")) })
	t.Run("node", func(t *testing.T) { measureOnce(t, node, "--size", "1") })
}

// tree implements the calls of the driver to a radix tree, as a list. The real one comes from a package
// archive, which a test does not fetch.
const tree = `#include "rax.h"
#include RAX_MALLOC_INCLUDE
#include <stdio.h>
#include <string.h>
void *raxNotFound = &raxNotFound;
struct node { struct node *next; size_t size; char key[64]; };
rax *raxNew(void) { rax *r = rax_malloc(sizeof(*r)); memset(r, 0, sizeof(*r)); return r; }
// Keys are six digits; or a slot of 5,461 in turn, the high byte first, and 32 hexadecimal digits.
static void check(const unsigned char *s, size_t n, uint64_t before) {
  if (n == 6 && strspn((const char *)s, "0123456789") == 6) return;
  if (n == 34 && s[0] * 256u + s[1] == before % 5461 && strspn((const char *)s + 2, "0123456789abcdef") == 32) return;
  fprintf(stderr, "key %llu of %zu bytes is not that of the experiment\n", (unsigned long long)before, n);
  exit(3);
}
int raxInsert(rax *r, unsigned char *s, size_t n, void *d, void **old) {
  check(s, n, r->numele);
  struct node *e = rax_malloc(sizeof(*e)); (void)d; (void)old;
  e->next = r->head; e->size = n; memcpy(e->key, s, n); r->head = e; r->numele++; r->numnodes++; return 1;
}
void *raxFind(rax *r, unsigned char *s, size_t n) {
  for (struct node *e = r->head; e; e = e->next) if (e->size == n && memcmp(e->key, s, n) == 0) return e;
  return raxNotFound;
}
uint64_t raxSize(rax *r) { return r->numele; }
void raxFree(rax *r) { for (struct node *e = r->head; e;) { struct node *next = e->next; rax_free(e); e = next; } rax_free(r); }
`

const treeHeader = `#include <stdint.h>
#include <stddef.h>
typedef struct rax { struct node *head; uint64_t numele, numnodes; } rax;
extern void *raxNotFound;
rax *raxNew(void); int raxInsert(rax *, unsigned char *, size_t, void *, void **); void *raxFind(rax *, unsigned char *, size_t);
uint64_t raxSize(rax *); void raxFree(rax *);
`

func TestRaxDrivesTheTreeThatItIsGiven(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"rax.c": tree, "rax.h": treeHeader} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := measureOnce(t, rax, "--source", dir, "--numbers", "2000", "--uuids", "6000")
	if got := r.Values("glibc", result.Key{Phase: "6000 uuid keys", Metric: "keys"})[0]; got != 6000 {
		t.Errorf("%v keys", got)
	}
}

func TestReportsOfLoadGeneratorsAreReadOrRefused(t *testing.T) {
	w, err := parseWrk("  Latency Distribution\n     50%    2.14ms\n     75%    3.00ms\n     90%  850.00us\n     99%    1.20s \n  30500 requests in 3.05s, 10MB read\nRequests/sec:  10000.50\n")
	if want := (wrkReport{10000.5, 30500, 2.14, 0.85, 1200}); err != nil || w != want {
		t.Errorf("wrk: %+v, %v", w, err)
	}
	if _, err := parseWrk("  Non-2xx or 3xx responses: 7\n"); err == nil || !strings.Contains(err.Error(), "wrk met errors: Non-2xx or 3xx responses: 7") {
		t.Errorf("wrk: %v", err)
	}
	done, rate, err := parsePgbench("number of transactions actually processed: 1234\ntps = 617.5 (without initial connection time)\n")
	if err != nil || done != 1234 || rate != 617.5 {
		t.Errorf("pgbench: %v, %v, %v", done, rate, err)
	}
	got := map[string]float64{}
	text := "... finished 100 ops\rreadrandom   :       2.136 micros/op 925219 ops/sec 0.043 seconds\nPercentiles: P50: 1.54 P75: 1.97 P99: 4.00 P99.9: 15.62 P99.99: 39.67\n"
	if err := recordDbBench(func(m string, v float64) { got[m] = v }, "readrandom", text); err != nil || got["throughput"] != 925219 || math.Abs(got["p99.9"]-0.01562) > 1e-9 {
		t.Errorf("db_bench: %v, %v", got, err)
	}
	for _, err := range []error{second(parseWrk("")), third(parsePgbench("")), recordDbBench(nil, "x", "")} {
		if err == nil || !strings.Contains(err.Error(), "printed no result") {
			t.Errorf("nothing printed: %v", err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }

func TestEveryScenarioHasALargerAndASmallerSize(t *testing.T) {
	for _, s := range All {
		full, err := runner.Resolve(s.Params, runner.Full)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []runner.Size{runner.Quick, runner.Long} {
			other, err := runner.Resolve(s.Params, size)
			if err != nil || maps.Equal(full, other) {
				t.Errorf("%s: the %s size is that of a full run; %v", s.Name, size, err)
			}
		}
	}
	for name, want := range map[string]map[string]string{
		"redis": {"requests": "10000000"}, "kv": {"requests": "10000000"},
		"mariadb": {"rows": "1000000", "threads": "16,64,256,1024,4096", "workloads": "oltp_read_only,oltp_read_write"},
	} {
		for _, s := range All {
			values, _ := runner.Resolve(s.Params, runner.Long) // checked above
			for param, value := range want {
				if s.Name == name && values[param] != value {
					t.Errorf("%s --long: %s is %s", name, param, values[param])
				}
			}
		}
	}
}
