package heap

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

var sample = &inspect.Snapshot{
	Version: "0.1.0", LayoutVersion: 1, Bound: 1 << 20,
	Metrics: []inspect.Metric{
		{Name: "dirty", Kind: "gauge", Unit: "bytes", Layer: "pages", Help: "bytes of free spans that still hold pages", Value: 3 << 20},
		{Name: "live", Kind: "gauge", Unit: "bytes", Layer: "layers", Help: "bytes of all objects the program holds", Value: 1 << 30},
		{Name: "allocations", Kind: "counter", Unit: "count", Layer: "front", Help: "allocations so far", Value: 12345678},
		{Name: "release_time", Kind: "counter", Unit: "nanoseconds", Layer: "os", Help: "time these calls took", Value: 1234567},
		{Name: "ceiling", Kind: "gauge", Unit: "bytes", Layer: "limits", Help: "bytes above which unused memory goes back at once", Value: math.MaxUint64},
		{Name: "news", Kind: "gauge", Unit: "count", Layer: "future", Help: "a figure of a later version", Value: 5},
	},
	Classes: []inspect.Class{
		{Size: 48, Smaller: 32, Small: true, Allocations: 1000, Frees: 900, Live: 100, Cached: 50, SlabFree: 1215, Slabs: 1, PartialSlabs: 1, SlabBytes: 65536, CleanBytes: 32768},
		{Size: 64, Small: true},
		{Size: 131072, Allocations: 5, Frees: 1, Live: 4, Cached: 1},
	},
	Caches: []inspect.CacheInfo{{Kind: "cpu", Index: 0, Objects: 51, Bytes: 133472, Room: 1 << 20}},
	Locks:  []inspect.Lock{{Name: "pages", Taken: 1234, Contentions: 5, Held: true}, {Name: "depot"}},
	Options: []inspect.Option{
		{Name: "dirty_decay_ms", Type: "int64_t", Help: "milliseconds after which unused pages go back", AtRunTime: true, Value: 5000, Default: 1000},
		{Name: "abort_conf", Type: "bool", Help: "end the program when an option is wrong", Value: 1},
	},
}

func TestEveryView(t *testing.T) {
	var out bytes.Buffer
	Write(&out, "process 812 (app), Granary 0.1.0", Report{sample, &Process{1200 << 20, 1 << 31}}, View{Classes: true, Caches: true, Locks: true, Options: true}, 80)
	testkit.Check(t, "testdata/everything.golden", out.Bytes())
	out.Reset()
	still := *sample
	still.Consistent = true
	Write(&out, "core file core.812, Granary 0.1.0", Report{Snapshot: &still}, View{}, 80)
	testkit.Check(t, "testdata/totals.golden", out.Bytes())
}

func TestABoundThatIsNotThereIsNone(t *testing.T) {
	for want, value := range map[string]uint64{"0 B": 0, "50 MiB": 50 << 20, "none": math.MaxUint64} {
		if got := Value(inspect.Metric{Name: "ceiling", Kind: "gauge", Unit: "bytes", Value: value}); got != want {
			t.Errorf("a ceiling of %d is %q", value, got)
		}
	}
}

func callStats(args ...string) (string, string, int) {
	var out, errs bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &errs}, []cli.Command{Stats}, append([]string{"stats"}, args...))
	return out.String(), errs.String(), code
}

// sleeper is a stopped process with this preload.
func sleeper(t *testing.T, preload string) string {
	t.Helper()
	process := testkit.Sleep(t, "LD_PRELOAD="+preload)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(process.Pid)
}

func TestAStoppedProcess(t *testing.T) {
	library := testkit.Library(t)
	pid := sleeper(t, library)
	out, errs, code := callStats(pid, "--json")
	var s inspect.Snapshot
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || !s.Consistent {
		t.Fatalf("code %d, %v, said %q: %s", code, err, errs, out)
	}
	if live, ok := s.Value("live"); !ok || live == 0 {
		t.Errorf("live is %d, %v", live, ok)
	}
	text, _, code := callStats(pid, "--classes", "--options")
	for _, want := range []string{"process " + pid + " (sleep), Granary ", "all figures are of one moment", "dirty_decay_ms", "LIVE BYTES"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("code %d, no %q in:\n%s", code, want, text)
		}
	}
}

// A process in another PID namespace is read by its PID in this one.
func TestAProcessInAnotherPIDNamespace(t *testing.T) {
	library := testkit.Library(t)
	cmd := exec.Command("sleep", "60")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Skipf("no new PID namespace: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	testkit.Await(t, cmd.Process.Pid, "S")
	if out, errs, code := callStats(pid); code != 0 || !strings.Contains(out, "process "+pid+" (sleep), Granary ") {
		t.Errorf("code %d, said %q, printed\n%s", code, errs, out)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := sleeper(t, "")
	for _, c := range []struct {
		arg, want string
		code      int
	}{
		{other, "process " + other + " does not run Granary but glibc", 1},
		{"1073741824", "there is no process 1073741824", 1},
		{"core.nosuch", "there is no core file core.nosuch: give its path", cli.CodeUsage},
		{file, "is not a core file of a 64-bit program", 1},
	} {
		_, errs, code := callStats(c.arg)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d, said %q", c.arg, code, errs)
		}
	}
	if _, errs, code := callStats(); code != cli.CodeUsage || errs != "granary: give the PID or the name of a process, or the path of a core file\n" {
		t.Errorf("code %d, said %q", code, errs)
	}
}
