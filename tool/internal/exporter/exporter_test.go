package exporter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func snapshot() *inspect.Snapshot {
	return &inspect.Snapshot{Version: "0.1.0", Consistent: true,
		Metrics: []inspect.Metric{
			{Name: "allocations", Kind: "counter", Unit: "count", Help: "allocations so far", Value: 123456},
			{Name: "live", Kind: "gauge", Unit: "bytes", Help: "bytes of all objects the program holds", Value: 1 << 30},
			{Name: "used_spans", Kind: "gauge", Unit: "bytes", Help: "bytes of spans and blocks in use", Value: 1 << 31},
			{Name: "slab_clean", Kind: "gauge", Unit: "bytes", Help: "bytes of clean pages in slabs", Value: 1 << 29},
			{Name: "ceiling", Kind: "gauge", Unit: "bytes", Help: "bytes above which unused memory goes back at once", Value: math.MaxUint64},
			{Name: "release_time", Kind: "counter", Unit: "nanoseconds", Help: "time these calls took", Value: 2_500_000_000},
		},
		Classes: []inspect.Class{{Size: 48, Small: true, Allocations: 10, Frees: 4, Live: 6, Slabs: 1, SlabBytes: 65536, CleanBytes: 61440}},
	}
}

// fake is a /proc of these processes.
func fake(t *testing.T, comms map[string]string) procfs.FS {
	t.Helper()
	root := t.TempDir()
	for pid, comm := range comms {
		write(t, filepath.Join(root, pid, "stat"), pid+" ("+comm+") S 1"+strings.Repeat(" 0", 17)+" 250 0 0\n")
		write(t, filepath.Join(root, pid, "statm"), "4096 512 0 0 0 0 0\n")
	}
	write(t, filepath.Join(root, "stat"), "cpu 0\nbtime 1700000000\n")
	return procfs.FS{Root: root}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A fakeHeap is one whose snapshots a test makes.
type fakeHeap struct {
	read    func() (*inspect.Snapshot, error)
	changed bool
	address uint64
}

func (h *fakeHeap) Snapshot() (*inspect.Snapshot, error) { return h.read() }
func (h *fakeHeap) Unchanged() bool                      { return !h.changed }
func (h *fakeHeap) Address() uint64                      { return h.address }
func (h *fakeHeap) Close() error                         { return nil }

// reading opens heaps that are read by this function.
func reading(read func(pid int) (*inspect.Snapshot, error)) inspect.Opener {
	return func(pid int) (inspect.Heap, error) {
		return &fakeHeap{read: func() (*inspect.Snapshot, error) { return read(pid) }}, nil
	}
}

func text(t *testing.T, c *Collector) string {
	t.Helper()
	var out bytes.Buffer
	if err := once(cli.Env{Stdout: &out}, c); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^(granary_exporter_scrape_duration_seconds) .*$`).ReplaceAllString(out.String(), "$1 0")
}

func config(pids ...int) Config {
	return Config{PIDs: pids, Classes: true, MaxProcesses: 10, Timeout: time.Minute}
}

func TestMetricsHaveTheNamesOfTheTableInBaseUnits(t *testing.T) {
	proc := fake(t, map[string]string{"7": "redis-server", "8": `odd "name"`})
	got := text(t, New(config(7, 8), proc, reading(func(int) (*inspect.Snapshot, error) { return snapshot(), nil }), time.Now))
	testkit.Check(t, "testdata/metrics.golden", []byte(got))
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(got)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestOneThatDiesCostsOnlyItself(t *testing.T) {
	proc := fake(t, map[string]string{"7": "a", "8": "b", "9": "c"})
	c := New(config(7, 8, 9, 10), proc, reading(func(pid int) (*inspect.Snapshot, error) {
		if pid == 8 {
			return nil, errors.New("damaged")
		}
		return snapshot(), nil
	}), time.Now)
	for round := 1; round <= 2; round++ {
		got := text(t, c)
		for want, times := range map[string]int{`pid="7"`: 15, `pid="9"`: 15, `pid="8"`: 0, `pid="10"`: 0, "granary_exporter_processes 2\n": 1} {
			if n := strings.Count(got, want); n != times {
				t.Errorf("%q is printed %d times, want %d:\n%s", want, n, times, got)
			}
		}
		if want := map[int]string{1: "granary_exporter_read_errors_total 1\n", 2: "granary_exporter_read_errors_total 2\n"}[round]; !strings.Contains(got, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

func TestWorkIsBounded(t *testing.T) {
	proc := fake(t, map[string]string{"7": "a", "8": "b", "9": "c", "10": "d"})
	cfg := config(7, 8, 9, 10)
	cfg.Timeout = time.Nanosecond
	got := text(t, New(cfg, proc, reading(func(int) (*inspect.Snapshot, error) {
		t.Error("read after the time was up")
		return snapshot(), nil
	}), time.Now))
	if !strings.Contains(got, "granary_exporter_processes_left_out 4\n") {
		t.Error(got)
	}
}

func TestOnlyCommandsThatMatch(t *testing.T) {
	proc := fake(t, map[string]string{"7": "redis-server", "8": "python3"})
	cfg := config(7, 8)
	cfg.Commands = regexp.MustCompile("^redis")
	got := text(t, New(cfg, proc, reading(func(int) (*inspect.Snapshot, error) { return snapshot(), nil }), time.Now))
	if strings.Contains(got, "python3") || !strings.Contains(got, "redis-server") || !strings.Contains(got, "granary_exporter_processes 1\n") {
		t.Error(got)
	}
}

// granary starts a process under the built library.
func granary(t *testing.T) int {
	t.Helper()
	return testkit.Sleep(t, "LD_PRELOAD="+testkit.Library(t)).Pid
}

func TestARealProcessIsFoundServedAndForgotten(t *testing.T) {
	pid := granary(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	cfg := Config{MaxProcesses: 500, Timeout: time.Minute, Commands: regexp.MustCompile("^sleep$")}
	server := httptest.NewServer(Handler(New(cfg, procfs.Live(), inspect.OpenLive, time.Now), log.New(io.Discard, "", 0)))
	defer server.Close()
	scrape := func() string {
		response, err := http.Get(server.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, status %d", err, response.StatusCode)
		}
		return string(body)
	}
	label := regexp.MustCompile(`granary_live_bytes\{command="sleep",pid="` + strconv.Itoa(pid) + `"\} [1-9]`)
	if got := scrape(); !label.MatchString(got) {
		t.Errorf("%s is not in:\n%s", label, got)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 500 { // a zombie until the parent has seen it
		if _, err := procfs.Live().Smaps(pid); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := scrape(); label.MatchString(got) {
		t.Error("a dead process is still served")
	}
}

func TestWrongCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"--command (": "--command: error parsing regexp", "--timeout 0s": "must be above zero", "extra": "one argument too many",
		"--listen 256.0.0.1:1": "is no address of this machine",
	} {
		var errs bytes.Buffer
		code := cli.Main(context.Background(), cli.Env{Stdout: io.Discard, Stderr: &errs}, []cli.Command{Command}, append([]string{"exporter"}, strings.Fields(args)...))
		if code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, said %q", args, code, errs.String())
		}
	}
}

// Processes come and go while they are read; those that stay are complete in every scrape.
func TestAStormOfProcessesLosesNothing(t *testing.T) {
	stays := granary(t)
	library, err := filepath.Abs("../../../build/lib/libgranary.so")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var storm sync.WaitGroup
	for range 4 {
		storm.Go(func() {
			for ctx.Err() == nil {
				cmd := exec.Command("sleep", "0.01")
				cmd.Env = append(os.Environ(), "LD_PRELOAD="+library)
				if err := cmd.Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	c := New(Config{MaxProcesses: 500, Timeout: time.Minute, Commands: regexp.MustCompile("^sleep$")}, procfs.Live(), inspect.OpenLive, time.Now)
	for range 30 {
		got := text(t, c)
		if !strings.Contains(got, `granary_live_bytes{command="sleep",pid="`+strconv.Itoa(stays)+`"}`) {
			t.Errorf("the process that stays is missing in:\n%s", got)
			break
		}
	}
	cancel()
	storm.Wait()
}
