package exporter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// asTool lets the test binary be the command, as another process whose time and memory can be measured.
const asTool = "GRANARY_EXPORTER_TEST_IS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		os.Exit(cli.Main(context.Background(), cli.Live("test"), []cli.Command{Command}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// A served is an exporter in a process of its own.
type served struct {
	pid int
	url string
}

var servingAt = regexp.MustCompile(`serving (http://\S+)`)

// serveApart starts `granary exporter`: the program $GRANARY_TOOL, or this test.
func serveApart(t *testing.T, args ...string) served {
	t.Helper()
	tool, environ := os.Getenv("GRANARY_TOOL"), os.Environ()
	if tool == "" {
		tool, environ = os.Args[0], append(environ, asTool+"=1")
	}
	cmd := exec.Command(tool, append([]string{"exporter", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = environ
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.StartProcess(t, cmd)
	line, err := bufio.NewReader(errs).ReadString('\n')
	m := servingAt.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the exporter says %q (%v)", line, err)
	}
	return served{cmd.Process.Pid, m[1]}
}

func (s served) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	response, err := http.Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return families
}

// byPID are the values of a family; a process that occurs twice is an error.
func byPID(t *testing.T, family *dto.MetricFamily) map[int]float64 {
	t.Helper()
	out := map[int]float64{}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() != "pid" {
				continue
			}
			pid, err := strconv.Atoi(l.GetValue())
			if _, twice := out[pid]; twice || err != nil {
				t.Errorf("%s has process %q twice (%v)", family.GetName(), l.GetValue(), err)
			}
			out[pid] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func only(family *dto.MetricFamily) float64 {
	return family.GetMetric()[0].GetGauge().GetValue() + family.GetMetric()[0].GetCounter().GetValue()
}

// checkScrape compares a scrape with what each process said of itself, and with the kernel.
func checkScrape(t *testing.T, families map[string]*dto.MetricFamily, many *testkit.Crowd) {
	t.Helper()
	live, rss := byPID(t, families["granary_live_bytes"]), byPID(t, families["granary_process_resident_memory_bytes"])
	allocations := byPID(t, families["granary_allocations_total"])
	if n := only(families["granary_exporter_processes"]); int(n) != len(live) {
		t.Errorf("%v processes were read, %d are served", n, len(live))
	}
	if n := only(families["granary_exporter_processes_left_out"]); n != 0 {
		t.Errorf("%v processes were left out", n)
	}
	var sum, want float64
	for _, m := range many.Stay {
		if live[m.PID] != float64(m.Said["live"]) || allocations[m.PID] != float64(m.Said["allocations"]) {
			t.Errorf("process %d: %v bytes after %v allocations are served, it says %d after %d",
				m.PID, live[m.PID], allocations[m.PID], m.Said["live"], m.Said["allocations"])
		}
		regions, err := procfs.Live().Smaps(m.PID)
		if err != nil {
			t.Fatal(err)
		}
		sum += rss[m.PID]
		want += float64(procfs.TotalRSS(procfs.Classify(regions)))
	}
	if sum < 0.99*want || sum > 1.01*want {
		t.Errorf("the resident memory of the processes that stay is %v, smaps says %v", sum, want)
	}
}

// Half of the processes are short-lived, and some of the others are in PID namespaces of their own.
func TestEveryProcessOfACrowdIsServedOnce(t *testing.T) {
	for _, n := range testkit.Sizes(t) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			many := testkit.Start(t, "hold", n/2, testkit.Apart(n/2), n-n/2)
			exporter := serveApart(t, "--command", "^"+many.Name+"$", "--max-processes", "1000")
			checkScrape(t, exporter.scrape(t), many)
			const scrapes = 20
			before, served := testkit.UsageOf(t, exporter.pid), 0
			for range scrapes {
				families := exporter.scrape(t)
				checkScrape(t, families, many)
				served += len(families["granary_live_bytes"].GetMetric())
			}
			after := testkit.UsageOf(t, exporter.pid)
			t.Logf("%d processes: %.3f s of CPU a scrape, RSS %.1f MiB, peak %.1f MiB", served/scrapes, (after.CPUSeconds-before.CPUSeconds)/scrapes, float64(after.RSS)/(1<<20), float64(after.Peak)/(1<<20))
			many.EndShort()
			for range 100 { // until the kernel has removed them
				if served = len(exporter.scrape(t)["granary_live_bytes"].GetMetric()); served == len(many.Stay) {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Errorf("%d processes are served, %d run", served, len(many.Stay))
		})
	}
}
