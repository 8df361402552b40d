package runner

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

func glibc(t *testing.T) allocators.Allocator {
	t.Helper()
	finder := allocators.Finder{LibraryDirs: preload.LibraryDirs(), FindGranary: func() (string, error) { return "", errors.New("not needed") }}
	selected, _, err := finder.Select("glibc")
	if err != nil {
		t.Fatal(err)
	}
	return selected[0]
}

// serve is a scenario whose server is a program of this machine.
func serve(spec ServerSpec, more ...Phase) Scenario {
	return Scenario{Name: "x", Rounds: measure.Rounds{Full: 2, Quick: 1}, Phases: func(Values) []Phase {
		start := StartPhase(func(ctx context.Context, v *Visit) error { return v.Start(ctx, spec) })
		return append(append([]Phase{start}, more...), WholePhase())
	}}
}

func sleeper(t *testing.T) ServerSpec {
	t.Helper()
	path, err := Need{"sleep", "coreutils"}.Find()
	if err != nil {
		t.Fatal(err)
	}
	return ServerSpec{Name: "sleep", Path: path, Args: []string{"60"}}
}

func visit(t *testing.T, s Scenario, c allocators.Allocator) (result.Sample, error) {
	t.Helper()
	if err := measure.Adopt(); err != nil {
		t.Fatal(err)
	}
	shared := &Shared{Dir: t.TempDir(), Values: Values{"settle": "250ms"}, Environ: os.Environ()}
	return s.measure(context.Background(), shared, procfs.Live(), c, 0, func(string) {})
}

func TestAVisitFillsItsRowsAndLeavesNothing(t *testing.T) {
	var pid int
	var dir string
	see := Phase{Name: "see", Do: func(_ context.Context, v *Visit) error { pid, dir = v.Server.PID(), v.Dir; return nil }}
	s := serve(sleeper(t), see, IdlePhase())
	sample, err := visit(t, s, glibc(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range s.Rows(nil) {
		if row.Better == result.Neutral { // a sleeping process accesses no new memory in its cgroup
			continue
		}
		if v, ok := sample.Get(row.Phase, row.Metric); !ok || v <= 0 && row.Unit == "bytes" {
			t.Errorf("%s, %s: %v, %v", row.Phase, row.Metric, v, ok)
		}
	}
	var r result.Results
	r.Add("glibc", 0, sample)
	var spans []result.Series
	for _, s := range r.Series {
		if s.Metric == result.MetricSpan {
			spans = append(spans, s)
			continue
		}
		if last := s.Points[len(s.Points)-1][1]; s.Unit == "bytes" && (last <= 0 || last > 64<<20) {
			t.Errorf("%s of a sleeper: %v bytes", s.Metric, last)
		}
	}
	if len(spans) != 4 || spans[2].Phase != "idle after the load" || spans[2].Points[0][1]-spans[2].Points[0][0] < 0.25 ||
		spans[2].Points[0][0] != spans[1].Points[0][1] || r.Series[len(r.Series)-1].Metric != result.MetricRunRSS {
		t.Errorf("phases %+v", spans)
	}
	if len(r.Series) != 9 || len(r.Series[0].Points) < 3 || len(r.Runs) != 1 || r.Runs[0].Seconds < 0.25 || r.Runs[0].Allocator != "glibc" {
		t.Errorf("series %+v, runs %+v", r.Series, r.Runs)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if _, err := procfs.Live().Stat(pid); err == nil {
		t.Error("the process is left")
	}
}

func TestAnAllocatorWithoutEffectIsAnError(t *testing.T) {
	lib, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(glibc(t).Path), "libm.so.6"))
	if err != nil {
		t.Fatal(err)
	}
	spec := sleeper(t)
	spec.ReadyLimit = time.Second // without a probe, it is ready when it runs under the allocator
	_, err = visit(t, serve(spec), allocators.Allocator{Name: "idle", Path: lib})
	if err == nil || !strings.Contains(err.Error(), "idle did not take effect") {
		t.Errorf("err = %v", err)
	}
}

func TestASettingThatTheAllocatorRefusesIsAnError(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	talker := filepath.Join(t.TempDir(), "talker.sh")
	if err := os.WriteFile(talker, []byte("#!/bin/sh\necho \"granary: there is no option 'fast'; did you mean 'cache'?\" >&2\n: >"+said+"\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ready := func(context.Context) error {
		_, err := os.Stat(said)
		return err
	}
	spec := ServerSpec{Name: "talker", Path: talker, Ready: ready}
	c := glibc(t)
	c.Name = "granary:fast=1"
	if _, err := visit(t, serve(spec), c); err == nil || !strings.Contains(err.Error(), "a setting of granary:fast=1 did not take effect: granary: there is no option 'fast'") {
		t.Errorf("err = %v", err)
	}
	c.Name = "plain"
	if _, err := visit(t, serve(spec), c); err != nil {
		t.Error(err)
	}
}

func TestADeadServerIsQuotedAndFinishedPhasesStay(t *testing.T) {
	kill := Phase{Name: "load", Do: func(ctx context.Context, v *Visit) error {
		v.Server.process.Stop(time.Second)
		_, err := net.Dial("unix", filepath.Join(v.Dir, "gone"))
		return err
	}}
	sample, err := visit(t, serve(sleeper(t), kill), glibc(t))
	if err == nil || !strings.Contains(err.Error(), "load: sleep died (signal: terminated); the end of its log says: (nothing)") {
		t.Errorf("err = %v", err)
	}
	if _, ok := sample.Get("start", MetricRSS); !ok {
		t.Error("what was finished is lost")
	}
}

func TestAServerThatNeverBecomesReadyIsStopped(t *testing.T) {
	spec := sleeper(t)
	spec.ReadyLimit = 100 * time.Millisecond
	spec.Ready = func(context.Context) error { return errors.New("connection refused") }
	_, err := visit(t, serve(spec), glibc(t))
	if err == nil || !strings.Contains(err.Error(), "start: sleep did not become ready within 100ms (connection refused)") {
		t.Errorf("err = %v", err)
	}
}

func TestTheRestOfThePlanGoesOnAndAnInterruptKeepsFinishedRounds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rounds := 0
	stop := Phase{Name: "load", Do: func(_ context.Context, v *Visit) error {
		if rounds++; rounds == 2 {
			cancel()
		}
		return nil
	}}
	var out bytes.Buffer
	env := cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()}
	json := filepath.Join(t.TempDir(), "r.json")
	err := command(ctx, t, serve(sleeper(t), stop), env, "--allocators", "glibc", "--rounds", "3", "--json", json)
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != 130 {
		t.Errorf("err = %v", err)
	}
	if text, err := os.ReadFile(json); err != nil || !strings.Contains(string(text), `"rounds": 1`) || !strings.Contains(out.String(), "interrupted in round 2 of 3") {
		t.Errorf("%v\n%s\n%s", err, text, out.String())
	}
}

func TestNoiseOfABusyNeighbourIsSeen(t *testing.T) {
	root := t.TempDir()
	write := func(user, steal int) {
		text := "cpu  " + strings.Repeat("0 ", 7) + "0\n"
		fields := strings.Fields(text)
		fields[1], fields[8] = strings.Repeat("9", user), strings.Repeat("9", steal)
		if err := os.WriteFile(filepath.Join(root, "stat"), []byte(strings.Join(fields, " ")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 1)
	n := startNoise(procfs.FS{Root: root})
	write(6, 4) // 999,990 and 9,990 ticks later
	r := n.stop()
	if r.OthersCPU < 9990 || r.OthersCPU > 9999.9 || r.Stolen < 99.8 || r.Stolen > 100 {
		t.Errorf("run %+v", r)
	}
}

// leak allocates a mebibyte every twentieth of a second and frees none.
const leak = `import sys, time
kept = []
for _ in range(40):
    kept.append(bytearray(1 << 20))
    time.sleep(0.05)
time.sleep(60)
`

func TestALeakShowsInTheSamplesOverTime(t *testing.T) {
	python, err := Need{"/usr/bin/python3", "python3"}.Find()
	if err != nil {
		t.Skip(err)
	}
	var first, last float64
	watch := Phase{Name: "watch", Do: func(ctx context.Context, v *Visit) error {
		seen, err := v.Watch(ctx, func(ctx context.Context, _ *Load) error {
			for range 600 { // until twenty of its mebibytes are there, however slow the machine
				if err := Sleep(ctx, 50*time.Millisecond); err != nil {
					return err
				}
				if rss, err := v.RSS(); err != nil || rss > 35<<20 {
					return err
				}
			}
			return nil
		})
		last = seen.EndRSS
		return err
	}}
	sample, err := visit(t, serve(ServerSpec{Name: "python3", Path: python, Args: []string{"-c", leak}}, watch), glibc(t))
	if err != nil {
		t.Fatal(err)
	}
	var r result.Results
	r.Add("glibc", 0, sample)
	rising := 0
	for _, s := range r.Series {
		if s.Phase != "watch" || s.Metric != MetricRSS {
			continue
		}
		first = s.Points[0][1]
		for i := 1; i < len(s.Points); i++ {
			if s.Points[i][1] > s.Points[i-1][1] {
				rising++
			}
		}
	}
	if g, err := measure.MakeGroup(procfs.Live()); err == nil {
		g.Remove()
		if peak, _ := sample.Get("whole run", MetricGroupPeak); peak < 10<<20 || peak > 200<<20 {
			t.Errorf("the peak of its control group is %.0f bytes", peak)
		}
	}
	if last-first < 10<<20 || rising < 4 {
		t.Errorf("RSS went from %.0f to %.0f bytes, rising %d times", first, last, rising)
	}
}
