package profile

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func TestCPUByCaller(t *testing.T) {
	c := CPU{Title: "process 812", Library: "/lib/libgranary.so", Kernel: 10, Modules: []inspect.Module{
		{Start: program, End: program + 0x1000, Path: "/usr/bin/server"}, {Start: library, End: library + 0x1000, Path: "/lib/libgranary.so"}},
		Chains: []cpushare.Chain{
			{Address: library + 0x10, Caller: program + 0x101, Above: []uint64{program + 0x101, program + 0x11, 7, program + 0x22}, Count: 30},
			{Address: library + 0x20, Count: 5},
			{Address: program + 0x300, Count: 55},
		}}
	p := c.Build()
	named(t, p)
	var out bytes.Buffer
	WriteText(&out, p, Index(p, "cpu"), -1, 0, 0)
	testkit.Check(t, "testdata/cpu.golden", out.Bytes())
	if inside, all := c.Inside(); inside != 35 || all != 100 {
		t.Errorf("%d of %d samples are the allocator's", inside, all)
	}
}

// churner spends its time in malloc and free, nearly all of it called by one function.
const churner = `#include <stdio.h>
#include <stdlib.h>
void* volatile kept[4096];
__attribute__((noinline)) void busy_site(unsigned i) { unsigned k = i * 2654435761u >> 20; free(kept[k]); kept[k] = malloc(16 + i % 3000); }
int main(void) { puts("ready"); fflush(stdout); for (unsigned i = 0;; ++i) busy_site(i); }
`

// compile builds a C program of this text.
func compile(t *testing.T, text string, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "planted.c"), filepath.Join(dir, "planted")
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, append([]string{"-O2", "-g", "-o", program, source, "-pthread"}, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	return program
}

// runs starts a program under the library, waits for its line "ready", and ends it with the test.
func runs(t *testing.T, program string, env ...string) int {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), "LD_PRELOAD="+testkit.Library(t)), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatalf("%s said nothing: %v", program, err)
	}
	return cmd.Process.Pid
}

func TestCPUOfARealProgram(t *testing.T) {
	pid := runs(t, compile(t, churner))
	out, errs, code := command(t, Command, strconv.Itoa(pid), "--cpu", "--seconds", "1", "--collapsed")
	if strings.Contains(errs, cpushare.ErrNotAllowed.Error()) {
		t.Skip(errs)
	}
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	sums, total := map[string]int{}, 0
	for line := range strings.Lines(out) {
		stack, count, _ := strings.Cut(strings.TrimSpace(line), "] ")
		if strings.HasSuffix(stack, AllocatorFrame[:len(AllocatorFrame)-1]) {
			n, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(errors.Join(err, errors.New(line)))
			}
			total += n
			if strings.Contains(stack, "busy_site;") {
				sums["busy_site"] += n
			}
		}
	}
	if total == 0 || float64(sums["busy_site"]) < 0.9*float64(total) {
		t.Errorf("of %d ns in the allocator, %d are put down to the only caller:\n%s", total, sums["busy_site"], out)
	}
}

// command runs a command as a user does.
func command(t *testing.T, c cli.Command, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := cli.Env{Stdout: &out, Stderr: &errs, Version: "1", Environ: os.Environ()}
	code := cli.Main(context.Background(), env, []cli.Command{c}, append(strings.Fields(c.Name), args...))
	return out.String(), errs.String(), code
}

func TestTooFewSamplesGiveNoShare(t *testing.T) {
	s := &inspect.Subject{Title: "server (812)", Target: &inspect.Target{PID: 812}}
	c := CPU{Library: "/lib/libgranary.so", For: 2 * time.Second, Modules: []inspect.Module{{Start: library, End: library + 0x1000, Path: "/lib/libgranary.so"}}}
	for count, want := range map[int]string{
		1:                  "server (812): 1 sample in 2s, too few to tell the allocator's share of its CPU time; sample for longer with --seconds",
		FewestSamples - 1:  "server (812): 19 samples in 2s, too few",
		FewestSamples:      "server (812): the allocator takes 100.0 % of its CPU time (20 samples in 2s)",
		10 * FewestSamples: "the allocator takes 100.0 %",
	} {
		c.Chains = []cpushare.Chain{{Address: library + 0x10, Count: count}}
		words, err := c.words(s, true)
		if err != nil || len(words) != 1 || !strings.Contains(words[0], want) || count < FewestSamples && strings.Contains(words[0], "%") {
			t.Errorf("%d samples: %q, %v", count, words, err)
		}
	}
	c.Chains = nil
	if _, err := c.words(s, true); err == nil || !strings.Contains(err.Error(), "used no CPU time") {
		t.Errorf("no sample: %v", err)
	}
}

func TestCPUTimeByFunction(t *testing.T) {
	r := Recording{code: []cpushare.Range{{Start: library, End: library + 0x800}}, cpu: CPU{Library: "/lib/libc.so.6", Kernel: 10, Modules: []inspect.Module{
		{Start: program, End: program + 0x1000, Path: "/usr/bin/server"}, {Start: library, End: library + 0x1000, Path: "/lib/libc.so.6"}},
		Chains: []cpushare.Chain{
			{Address: library + 0x10, Caller: program + 0x101, Above: []uint64{program + 0x101, 7, program + 0x22}, Count: 30},
			{Address: library + 0x20, Caller: program + 0x101, Count: 20},
			{Address: library + 0x900, Caller: program + 0x101, Count: 5},
			{Address: program + 0x300, Above: []uint64{program + 0x22}, Count: 55},
		}}}
	p := r.cpu.functions()
	r.nameRest(p)
	by, total := Flat(p, Index(p, "samples"))
	if want := map[string]int64{AllocatorFrame: 50, "[libc.so.6]": 5, "[server]": 55, KernelFrame: 10}; total != 120 || !maps.Equal(by, want) {
		t.Errorf("%v of %d samples, not %v", by, total, want)
	}
	for _, s := range p.Sample {
		if depth := len(s.Location); s.Value[0] != 10 && depth != 2 { // one caller is known each; 7 is no code
			t.Errorf("%v has %d frames", Names(s), depth)
		}
	}
}

// burner spends its time in a function that two others call, and keeps no frame pointers.
const burner = `#include <stdio.h>
volatile unsigned long sum;
__attribute__((noinline)) void inner_site(unsigned n) { for (unsigned i = 0; i < n; ++i) sum += i * n; sum += 1; }
__attribute__((noinline)) void outer_site(unsigned n) { char volatile room[200]; room[n % 200] = 1; inner_site(100000); sum += room[7]; }
int main(void) { puts("ready"); fflush(stdout); for (unsigned i = 0;; ++i) { outer_site(i); sum += i; } }
`

func TestStacksAreWholeWithoutFramePointers(t *testing.T) {
	if err := MayRecord(procfs.Live()); errors.Is(err, cpushare.ErrNotAllowed) {
		t.Skip(err)
	}
	pid := runs(t, compile(t, burner, "-fomit-frame-pointer"))
	libc, err := filepath.EvalSymlinks(libcOf(t, pid))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Record(procfs.Live(), pid, allocators.Allocator{Name: "glibc", Path: libc, System: true})
	if err != nil {
		t.Fatal(err)
	}
	awaitCPUTime(t, pid, 500*time.Millisecond)
	p := r.Stop(context.Background(), symbol.NewFinder(os.Getenv))
	inner, whole := int64(0), int64(0)
	for _, s := range p.Sample {
		names := Names(s)
		if names[0] != "inner_site" {
			continue
		}
		inner += s.Value[0]
		if len(names) > 2 && names[1] == "outer_site" && names[2] == "main" {
			whole += s.Value[0]
		}
	}
	if inner < 20 || whole < inner*9/10 {
		t.Errorf("of %d samples in inner_site, %d have their callers", inner, whole)
	}
}

// awaitCPUTime waits until the process has run for so much longer: a busy machine gives it little.
func awaitCPUTime(t *testing.T, pid int, more time.Duration) {
	t.Helper()
	ran := func() time.Duration {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "schedstat"))
		if err != nil {
			t.Fatal(err)
		}
		nanos, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(nanos)
	}
	for end := ran() + more; ran() < end; {
		time.Sleep(20 * time.Millisecond)
	}
}

func libcOf(t *testing.T, pid int) string {
	t.Helper()
	maps, err := procfs.Live().Maps(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if strings.Contains(filepath.Base(m.Path), "libc.so") {
			return m.Path
		}
	}
	t.Skip("the program has no shared C library")
	return ""
}
