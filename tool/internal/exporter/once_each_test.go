package exporter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// become gives a fake process another start or name.
func become(t *testing.T, proc procfs.FS, pid, comm string, ticks int) {
	t.Helper()
	write(t, filepath.Join(proc.Root, pid, "stat"), fmt.Sprintf("%s (%s) S 1%s %d 0 0\n", pid, comm, strings.Repeat(" 0", 17), ticks))
}

// A reading during which a PID passes to another process belongs to neither process.
func TestAProcessThatTakesAPIDIsNotTheOneBefore(t *testing.T) {
	proc := fake(t, map[string]string{"7": "old"})
	c := New(config(7), proc, reading(func(int) (*inspect.Snapshot, error) {
		become(t, proc, "7", "new", 999)
		return snapshot(), nil
	}), time.Now)
	if got := text(t, c); strings.Contains(got, `pid="7"`) || !strings.Contains(got, "granary_exporter_read_errors_total 0\n") {
		t.Error(got)
	}
	got := text(t, c)
	if strings.Contains(got, `command="old"`) || strings.Count(got, `granary_live_bytes{command="new",pid="7"}`) != 1 || !strings.Contains(got, `granary_process_start_time_seconds{command="new",pid="7"} 1.70000000999e+09`) {
		t.Error(got)
	}
}

// After exec the heap is opened anew, and one of another allocator is no error.
func TestExecIsNoticed(t *testing.T) {
	proc, opened := fake(t, map[string]string{"7": "shell"}), 0
	var heap *fakeHeap
	granary := true
	c := New(config(7), proc, func(int) (inspect.Heap, error) {
		opened++
		if !granary {
			return nil, fmt.Errorf("another: %w", inspect.ErrNotGranary)
		}
		heap = &fakeHeap{read: func() (*inspect.Snapshot, error) { return snapshot(), nil }}
		return heap, nil
	}, time.Now)
	text(t, c)
	text(t, c)
	if opened != 1 {
		t.Errorf("a heap was opened %d times", opened)
	}
	heap.changed, granary = true, false
	if got := text(t, c); strings.Contains(got, `pid="7"`) || !strings.Contains(got, "granary_exporter_read_errors_total 0\n") {
		t.Error(got)
	}
	granary = true
	become(t, proc, "7", "server", 250)
	if got := text(t, c); !strings.Contains(got, `granary_live_bytes{command="server",pid="7"}`) {
		t.Error(got)
	}
}

// The limit is on the processes that are selected.
func TestTheLimitCountsSelectedProcesses(t *testing.T) {
	proc := fake(t, map[string]string{"1": "sh", "2": "sh", "3": "redis", "4": "redis", "5": "redis"})
	cfg := Config{MaxProcesses: 2, Timeout: time.Minute, Commands: regexp.MustCompile("^redis$")}
	got := text(t, New(cfg, proc, reading(func(int) (*inspect.Snapshot, error) { return snapshot(), nil }), time.Now))
	if !strings.Contains(got, "granary_exporter_processes 2\n") || !strings.Contains(got, "granary_exporter_processes_left_out 1\n") || !strings.Contains(got, `pid="4"`) {
		t.Error(got)
	}
}

// Counters of a name contain the processes that ended, gauges do not; exec and a new PID begin new counts.
func TestSumsByCommandNeverLoseACount(t *testing.T) {
	proc := fake(t, map[string]string{"7": "worker", "8": "worker", "9": "db"})
	count := map[int]uint64{7: 100, 8: 1000, 9: 5}
	heaps := map[int]*fakeHeap{}
	cfg := config(7, 8, 9)
	cfg.Classes, cfg.ByCommand = false, true
	now := time.Unix(0, 0)
	c := New(cfg, proc, func(pid int) (inspect.Heap, error) {
		if _, err := os.Stat(proc.Path(pid, "stat")); err != nil {
			return nil, err
		}
		heaps[pid] = &fakeHeap{address: uint64(len(heaps)), read: func() (*inspect.Snapshot, error) {
			s := snapshot()
			s.Metrics[0].Value = count[pid]
			return s, nil
		}}
		return heaps[pid], nil
	}, func() time.Time { return now })
	sums := func(allocations, live, processes string) {
		t.Helper()
		got := text(t, c)
		for _, want := range []string{
			`granary_allocations_total{command="worker"} ` + allocations,
			`granary_live_bytes{command="worker"} ` + live,
			`granary_processes{command="worker"} ` + processes,
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("lacks %s:\n%s", want, got)
			}
		}
		if strings.Contains(got, "pid=") || !strings.Contains(got, `granary_process_info{command="db",version="0.1.0"} 1`) || !strings.Contains(got, `granary_ceiling_bytes{command="worker"} +Inf`) {
			t.Error(got)
		}
	}
	sums("1100", "2.147483648e+09", "2")
	count[7] = 150
	sums("1150", "2.147483648e+09", "2")
	if err := os.RemoveAll(filepath.Join(proc.Root, "8")); err != nil {
		t.Fatal(err)
	}
	sums("1150", "1.073741824e+09", "1")
	heaps[7].changed, count[7] = true, 30 // exec
	sums("1180", "1.073741824e+09", "1")
	become(t, proc, "7", "worker", 999)
	count[7] = 20
	sums("1200", "1.073741824e+09", "1")
	if err := os.RemoveAll(filepath.Join(proc.Root, "7")); err != nil {
		t.Fatal(err)
	}
	sums("1200", "0", "0")
	now = now.Add(forgotten + time.Second)
	if got := text(t, c); strings.Contains(got, "worker") {
		t.Error("a name that no process has any more is served for ever")
	}
}

// A child between vfork and exec has its parent's memory: it is not a second heap.
func TestAChildOfVforkIsNotCounted(t *testing.T) {
	program := testkit.Compile(t, `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  char* kept = malloc(100000);
  if (kept == NULL) return 1;
  puts("ready"), fflush(stdout);
  if (vfork() == 0) for (;;) pause();
  return kept[0];
}`)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.StartProcess(t, cmd)
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	var child []int
	for range 500 {
		if child = procfs.Live().Tree(cmd.Process.Pid)[1:]; len(child) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(child) == 0 {
		t.Fatal("there is no child")
	}
	t.Cleanup(func() { _ = exec.Command("kill", "-9", strconv.Itoa(child[0])).Run() }) // its parent waits for it
	if !inspect.ShareMemory(child[0], cmd.Process.Pid) {
		t.Skip("the kernel does not tell which processes share their memory")
	}
	found, _, err := inspect.NewDiscovery(procfs.Live(), inspect.OpenLive, time.Now).Find([]int{cmd.Process.Pid, child[0]}, 10)
	if err != nil || len(found) != 1 || found[0].PID != cmd.Process.Pid {
		t.Errorf("%d heaps are found for one (%v)", len(found), err)
	}
}

// A process that the loader has not finished, or that called exec a moment ago, is inspected again by the next scrape.
func TestYoungProcessesAreInspectedAgain(t *testing.T) {
	proc := fake(t, map[string]string{"7": "a"})
	ready := false
	now := time.Unix(100, 0)
	d := inspect.NewDiscovery(proc, func(int) (inspect.Heap, error) {
		if !ready {
			return nil, errors.New("no library yet")
		}
		return &fakeHeap{}, nil
	}, func() time.Time { return now })
	find := func() []int {
		found, _, err := d.Find(nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		for _, f := range found {
			pids = append(pids, f.PID)
		}
		return pids
	}
	if got := find(); got != nil {
		t.Errorf("found %v", got)
	}
	ready = true
	if got := find(); !slices.Equal(got, []int{7}) {
		t.Errorf("a moment later it finds %v", got)
	}
}
