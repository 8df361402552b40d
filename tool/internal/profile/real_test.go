package profile

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// A planted is a program of testdata/planted.c that waits.
type planted struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	says *bufio.Reader
}

// plant starts it under the library and waits until it is ready.
func plant(t *testing.T, mode string, more ...string) *planted {
	t.Helper()
	text, err := os.ReadFile("testdata/planted.c")
	if err != nil {
		t.Fatal(err)
	}
	p := &planted{t: t, cmd: exec.Command(compile(t, string(text), "-fno-optimize-sibling-calls"), append([]string{mode}, more...)...)}
	p.cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.says = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // it was killed
	})
	p.waitFor("ready")
	return p
}

func (p *planted) waitFor(word string) {
	p.t.Helper()
	line, err := p.says.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != word {
		p.t.Fatalf("it said %q, not %q: %v", line, word, err)
	}
}

// allocate makes it allocate.
func (p *planted) allocate() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *planted) open() *inspect.Subject {
	p.t.Helper()
	s, err := inspect.OpenSubject(procfs.Live(), fmt.Sprint(p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.Close() })
	return s
}

// bySite adds a kind of value up by the innermost function.
func bySite(b Built, name string) map[string]float64 {
	sums := map[string]float64{}
	for _, s := range b.Sample {
		sums[Names(s)[0]] += float64(s.Value[Index(b.Profile, name)])
	}
	return sums
}

// near is true within five standard deviations of a sum over so many samples.
func near(got, want, samples float64) bool {
	return math.Abs(got-want) <= 5*want/math.Sqrt(samples)
}

// Estimates of known sites are right within the error of sampling, older objects are listed by class,
// and in the end the process is as it was.
func TestKnownSitesOfARealProgram(t *testing.T) {
	const rate = 64 << 10
	p := plant(t, "sizes", "helper")
	s := p.open()
	session, err := Start(context.Background(), s, rate)
	if err != nil {
		t.Fatal(err)
	}
	p.allocate()
	p.waitFor("done")
	h, err := session.Read(true)
	if err != nil {
		t.Fatal(err)
	}
	b := h.Build()
	f := symbol.NewFinder(func(string) string { return "" })
	f.OfProcess(procfs.Live(), s.PID)
	f.Symbolize(context.Background(), b.Profile)

	const small, large = 60000 * 1024.0, 40 * 3 << 20
	inUse, allocated := bySite(b, InUseSpace), bySite(b, AllocSpace)
	if !near(allocated["Small"], small, small/rate) || !near(inUse["Small"], small/2, small/2/rate) {
		t.Errorf("small objects: %.0f bytes allocated, %.0f in use; it was %.0f and half of it", allocated["Small"], inUse["Small"], small)
	}
	if got := inUse["Large"]; math.Abs(got-large) > 0.02*large {
		t.Errorf("large blocks: %.0f bytes in use of %d", got, large)
	}
	if got := inUse["class 2048"] / 2048; math.Abs(got-500) > 10 {
		t.Errorf("what lived before: %.0f objects of class 2048, it was 500; %v", got, inUse)
	}
	for _, stack := range b.Stacks {
		if names := NamesOf(stack); names[0] == "Small" && !slices.Contains(names, "main") {
			t.Errorf("a stack ends early: %v", names)
		}
	}
	var file bytes.Buffer
	if err := b.Write(&file); err != nil || b.CheckValid() != nil {
		t.Errorf("the profile is not valid: %v, %v", err, b.CheckValid())
	}
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Samples(); err != nil || after.Active || after.Collected {
		t.Errorf("after it was switched off: %+v, %v", after, err)
	}
}

// One small object that stays on each page is found, by idle bytes, before everything else.
func TestPlantedPinnerIsNamedFirst(t *testing.T) {
	p := plant(t, "pins", "helper")
	s := p.open()
	session, err := Start(context.Background(), s, 512) // some 500 samples of the pinner: 30 % is six deviations
	if err != nil {
		t.Fatal(err)
	}
	p.allocate()
	p.waitFor("done")
	out, errs, code := command(t, Command, fmt.Sprint(s.PID), "--pins")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	lines := strings.Split(out, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "PINNED_SPACE") })
	if i < 0 || !strings.Contains(lines[i+1], "Pinner < Pins") {
		t.Errorf("the pinner is not named first:\n%s", out)
	}
	h, err := session.Read(true)
	if err != nil {
		t.Fatal(err)
	}
	const idle = 4000 * (4096 - 64)
	if got := bySite(withNames(h), PinnedSpace)["Pinner"]; math.Abs(got-idle) > 0.3*idle {
		t.Errorf("it pins %.0f bytes, and it should be about %d; in all %d", got, idle, h.Pins.Total)
	}
	if err := session.Stop(); err != nil {
		t.Error(err)
	}
}

// withNames builds a heap and names its functions by the program's own symbols.
func withNames(h Heap) Built {
	b := h.Build()
	symbol.NewFinder(func(string) string { return "" }).Symbolize(context.Background(), b.Profile)
	return b
}

// A program that samples from its start leaves a core file that is profiled, too.
func TestProfileOfACoreFile(t *testing.T) {
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("there is no gdb to make a core file")
	}
	p := plant(t, "sizes", "helper")
	if _, err := Start(context.Background(), p.open(), 64<<10); err != nil {
		t.Fatal(err)
	}
	p.allocate()
	p.waitFor("done")
	core := filepath.Join(t.TempDir(), "core")
	if out, err := exec.Command(gdb, "-batch", "-p", fmt.Sprint(p.cmd.Process.Pid), "-ex", "generate-core-file "+core).CombinedOutput(); err != nil {
		t.Skipf("gdb: %v: %s", err, out)
	}
	out, errs, code := command(t, Command, core)
	if code != 0 || !strings.Contains(out, "Large < Sizes < main") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

// A process that was not sampling cannot be profiled afterwards, and the message says so.
func TestCoreFileWithoutSamples(t *testing.T) {
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("there is no gdb to make a core file")
	}
	p := plant(t, "none")
	core := filepath.Join(t.TempDir(), "core")
	if out, err := exec.Command(gdb, "-batch", "-p", fmt.Sprint(p.cmd.Process.Pid), "-ex", "generate-core-file "+core).CombinedOutput(); err != nil {
		t.Skipf("gdb: %v: %s", err, out)
	}
	if out, errs, code := command(t, Command, core); code != 1 || !strings.Contains(errs, "was not sampling") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

// Sampling that was on stays on; a second reader waits for nothing.
func TestTwoReadersShareTheSampling(t *testing.T) {
	p := plant(t, "sizes", "helper")
	s := p.open()
	first, err := Start(context.Background(), s, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Start(context.Background(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if first.WasOn() || !second.WasOn() || second.Rate != 64<<10 {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	if samples, err := s.Samples(); err != nil || !samples.Active {
		t.Errorf("the second switched it off: %v", err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if samples, err := s.Samples(); err != nil || samples.Active {
		t.Errorf("the first did not switch it off: %v", err)
	}
}

// A process without a background thread begins to sample when it next allocates; until then one is told so.
func TestAnIdleProcessBeginsLater(t *testing.T) {
	defer func(before time.Duration) { answerTime = before }(answerTime)
	answerTime = 300 * time.Millisecond
	p := plant(t, "none")
	s := p.open()
	session, err := Start(context.Background(), s, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Read(false); err == nil || !strings.Contains(err.Error(), "did not allocate") {
		t.Errorf("an idle process: %v", err)
	}
	if err := session.Stop(); err != nil {
		t.Error(err)
	}
}

// Objects in scoped heaps are not sampled, and are reported.
func TestScopedHeapsAreOneRow(t *testing.T) {
	p := plant(t, "heaps", "helper")
	s := p.open()
	session, err := Start(context.Background(), s, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	p.allocate()
	p.waitFor("done")
	h, err := session.Read(false)
	if err != nil {
		t.Fatal(err)
	}
	if got := bySite(h.Build(), InUseSpace)[ArenasFrame]; got < 8<<20 || got > 16<<20 {
		t.Errorf("heaps of 8 MiB are shown with %.0f bytes", got)
	}
	if words := strings.Join(h.Words(), "\n"); !strings.Contains(words, "scoped heaps and arenas (2)") {
		t.Errorf("no word of them: %s", words)
	}
	if err := session.Stop(); err != nil {
		t.Error(err)
	}
}

// If a process ends while it is sampled, the samples read so far are kept: its only site is named.
func TestAProcessThatEndsWhileItIsSampledIsShown(t *testing.T) {
	path := compile(t, `#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline, noclone)) void* only_site(void) { return malloc(4096); }
static void* volatile kept;
int main(void) {
  puts("ready");
  fflush(stdout);
  for (int i = 0; i < 2000; ++i) { kept = only_site(); usleep(1000); }
}`, "-g", "-fno-optimize-sibling-calls")
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.StartProcess(t, cmd)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	printed, errs, code := command(t, Command, fmt.Sprint(cmd.Process.Pid), "--seconds", "60", "--rate", "1KiB")
	if code != 0 || !strings.Contains(printed+errs, "only_site") || !strings.Contains(printed+errs, "the process ended while it was sampled") {
		t.Errorf("code %d: %s%s", code, printed, errs)
	}
}

// A process that ends before anything was read gives a message, not a hang.
func TestProcessThatEndsMeanwhile(t *testing.T) {
	p := plant(t, "none")
	_ = p.cmd.Process.Kill()
	testkit.Await(t, p.cmd.Process.Pid, "Z")
	_, errs, code := command(t, Command, fmt.Sprint(p.cmd.Process.Pid), "--seconds", "60")
	if code != 1 || errs == "" {
		t.Errorf("code %d: %s", code, errs)
	}
}
