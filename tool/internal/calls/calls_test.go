package calls

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func TestEveryCallOfAKnownProgramIsTraced(t *testing.T) {
	source, err := os.ReadFile("testdata/known.c")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testkit.Compile(t, string(source), "-g", "-pthread", "-fno-optimize-sibling-calls"))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	testkit.StartProcess(t, cmd)
	says := bufio.NewScanner(out)
	await := func(word string) {
		if !says.Scan() || says.Text() != word {
			t.Fatalf("it said %q, not %q", says.Text(), word)
		}
	}
	await("ready")
	s, watched := open(t, cmd.Process.Pid), open(t, cmd.Process.Pid)
	f := symbol.NewFinder(os.Getenv)
	f.OfProcess(procfs.Live(), s.PID)
	ctx, stop := context.WithCancel(context.Background())
	traced := make(chan struct{})
	go func() { // as soon as every call is sampled, the program makes its calls, and then the trace ends
		defer close(traced)
		defer stop()
		for samples := (&inspect.Samples{}); !samples.Active; time.Sleep(10 * time.Millisecond) {
			if samples, err = watched.Samples(); err != nil || ctx.Err() != nil {
				return
			}
		}
		_, err = in.Write([]byte("g"))
		says.Scan()
	}()
	trace, failed := Take(ctx, s, f, time.Minute)
	stop()
	<-traced
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	check(t, trace, cmd.Process.Pid)
	if samples, err := s.Samples(); err != nil || samples.Active {
		t.Errorf("sampling is left on: %v", err)
	}
}

func open(t *testing.T, pid int) *inspect.Subject {
	t.Helper()
	s, err := inspect.OpenSubject(procfs.Live(), fmt.Sprint(pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// check compares a trace with the calls of testdata/known.c.
func check(t *testing.T, trace *Trace, pid int) {
	t.Helper()
	if trace.Allocations != 1802 || trace.Freed != 800 || trace.Lost != 0 || trace.Ended {
		t.Errorf("%d allocations, %d freed, %d lost", trace.Allocations, trace.Freed, trace.Lost)
	}
	want := []Range{{32, 64, 300}, {64, 128, 1000}, {4096, 8192, 500}, {2 << 20, 4 << 20, 2}}
	if fmt.Sprint(trace.Sizes) != fmt.Sprint(want) {
		t.Errorf("sizes %v, not %v", trace.Sizes, want)
	}
	var freed uint64
	for _, r := range trace.Lifetimes {
		freed += r.Calls
	}
	if freed != 800 {
		t.Errorf("lifetimes of %d objects: %v", freed, trace.Lifetimes)
	}
	if len(trace.Threads) != 2 || trace.Threads[0].ID != pid || trace.Threads[0].Allocations != 1502 || trace.Threads[0].Frees != 800 ||
		trace.Threads[1].Allocations != 300 || trace.Threads[1].Frees != 0 || trace.Threads[0].Name == "" {
		t.Errorf("threads %+v", trace.Threads)
	}
	sites := map[string]Stack{}
	for _, s := range trace.Stacks {
		sites[s.Functions[0]] = s
	}
	if s := sites["small_site"]; s.Allocations != 1000 || s.Live != 1000 || s.Bytes < 100*1000 || s.Bytes > 128*1000 {
		t.Errorf("small_site: %+v of %+v", s, trace.Stacks)
	}
	if s := sites["temporary_site"]; s.Allocations != 500 || s.Live != 0 {
		t.Errorf("temporary_site: %+v", s)
	}
	if c := trace.Cost.Traced; c.Calls < 1802 || c.Calls > 1900 || c.CPUSeconds <= 0 || trace.Cost.Before.Calls > 100 {
		t.Errorf("by the counters: %+v", trace.Cost)
	}
}

func TestAProcessThatIsSampledAlreadyIsRefused(t *testing.T) {
	p := testkit.Sleep(t, "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF=prof:true,lg_prof_sample:19")
	s := open(t, p.Pid)
	_, err := Take(context.Background(), s, symbol.NewFinder(os.Getenv), 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "is being sampled, at one sample in 524288 bytes") {
		t.Errorf("err = %v", err)
	}
	if samples, err := s.Samples(); err != nil || !samples.Active {
		t.Errorf("the sampling of others was ended: %v", err)
	}
}

func TestWhatIsPrinted(t *testing.T) {
	trace := &Trace{
		Title: "process 812 (server), Granary 0.1.0", Seconds: 5.01, Allocations: 123456, Bytes: 7 << 20, Freed: 100000, Lost: 3,
		Cost:      Cost{Before: Activity{1, 0.5, 250000}, Traced: Activity{5, 4, 1000000}},
		Sizes:     powers([]float64{0, 0, 0, 0, 100000, 0, 23000, 456}),
		Lifetimes: powers([]float64{90000, 9000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 900, 100}),
		Threads:   []Thread{{812, "server", 100000, 6 << 20, 99000}, {813, "", 23000, 1 << 20, 1000}, {0, "", 456, 1 << 10, 0}},
		Stacks:    []Stack{{[]string{"read", "main"}, 120000, 6 << 20, 20000}, {[]string{"parse", "read", "main"}, 3456, 1 << 20, 0}},
	}
	var out bytes.Buffer
	trace.Write(&out, 80, 0)
	trace.Write(&out, 80, 1)
	testkit.Check(t, "testdata/calls.golden", out.Bytes())
	for _, c := range []struct {
		cost Cost
		want string
	}{
		{Cost{}, "unknown, as the process ended"},
		{Cost{Before: Activity{1, 0.001, 10}, Traced: Activity{5, 0.001, 50}}, "too little CPU time to tell; calls a second: 10 while traced, 10 in"},
		{Cost{Before: Activity{1, 0.5, 1000000}, Traced: Activity{2, 2, 800000}}, "2.50 µs of CPU time for each call while traced, 0.50 µs before"},
	} {
		if got := c.cost.words(); !strings.Contains(got, c.want) {
			t.Errorf("%q", got)
		}
	}
}

func TestAFileIsNoProcess(t *testing.T) {
	for _, path := range []string{"calls_test.go", "/nonexistent/core.12"} {
		_, err := trace(context.Background(), cli.Env{}, path, time.Second)
		if err == nil || !strings.Contains(err.Error(), path+" names a file, which makes no calls") {
			t.Errorf("%s: err = %v", path, err)
		}
	}
}
