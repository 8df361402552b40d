package inspect

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// quiet keeps the heap unchanged while it is read.
const quiet = "dirty_decay_ms:-1,background_thread:false"

func mustOpen(t *testing.T, pid int) *Target {
	t.Helper()
	target, err := Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

func mustSnapshot(t *testing.T, target *Target) *Snapshot {
	t.Helper()
	s, err := target.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agree compares every figure with the process' own figures.
func agree(t *testing.T, s *Snapshot, said map[string]uint64) {
	t.Helper()
	if len(s.Metrics) != len(said) {
		t.Errorf("%d figures were read, the process told %d", len(s.Metrics), len(said))
	}
	for _, m := range s.Metrics {
		if want, ok := said[m.Name]; !ok || m.Value != want {
			t.Errorf("%s is %d, the process says %d", m.Name, m.Value, want)
		}
	}
}

func TestEveryFigureIsWhatTheProcessSays(t *testing.T) {
	h := hold(t, "stop", quiet)
	waitForState(t, h.pid(), "T")
	s := mustSnapshot(t, mustOpen(t, h.pid()))
	agree(t, s, h.said)
	if !s.Consistent || s.Bound != 0 {
		t.Errorf("a stopped process is read as inconsistent by %d bytes", s.Bound)
	}
	live, _ := s.Value("live")
	if live < 10<<20 {
		t.Errorf("live is %d: the holder holds more", live)
	}
}

// A process that has not yet read its limits has no ceiling, as one without limits.
func TestAnUnreadCeilingIsNone(t *testing.T) {
	process := testkit.Sleep(t, "LD_PRELOAD="+testkit.Library(t))
	if v, ok := mustSnapshot(t, mustOpen(t, process.Pid)).Value("ceiling"); !ok || v != math.MaxUint64 {
		t.Errorf("the ceiling is %d", v)
	}
}

// A limit that is set between two readings is not memory that moved.
func TestOnlyAmountsOfMemoryMove(t *testing.T) {
	figures := func(live, limit uint64) *Snapshot {
		return &Snapshot{Metrics: []Metric{{Name: "live", Kind: "gauge", Unit: "bytes", Value: live}, {Name: "ceiling", Kind: "gauge", Unit: "bytes", Value: limit}}}
	}
	if got := moved(figures(5000, math.MaxUint64), figures(4000, 50<<20)); got != 1000 {
		t.Errorf("%d bytes moved", got)
	}
}

func TestClassesAddUpToTheFigures(t *testing.T) {
	h := hold(t, "wait", quiet)
	s := mustSnapshot(t, mustOpen(t, h.pid()))
	var live, allocations, frees uint64
	for _, c := range s.Classes {
		live += c.LiveBytes()
		allocations += c.Allocations
		frees += c.Frees
		if c.Allocations-c.Frees != c.Live {
			t.Errorf("class %d: %d allocations less %d frees are not %d objects", c.Size, c.Allocations, c.Frees, c.Live)
		}
	}
	want := func(name string, got uint64) {
		if v, ok := s.Value(name); !ok || v != got {
			t.Errorf("%s is %d, the classes add up to %d", name, v, got)
		}
	}
	large, _ := s.Value("large")
	blocks, _ := s.Value("large_allocations")
	freed, _ := s.Value("large_frees")
	want("live", live+large)
	want("allocations", allocations+blocks)
	want("frees", frees+freed)
}

func TestOptionsAreThoseOfTheProcess(t *testing.T) {
	h := hold(t, "wait", "dirty_decay_ms:4321")
	for _, o := range mustSnapshot(t, mustOpen(t, h.pid())).Options {
		if o.Name == "dirty_decay_ms" {
			if o.Value != 4321 || !o.AtRunTime || o.Lowest != -1 {
				t.Errorf("dirty_decay_ms is read as %+v", o)
			}
			return
		}
	}
	t.Error("the options lack dirty_decay_ms")
}

func TestAForkedChildIsRead(t *testing.T) {
	h := hold(t, "fork", quiet)
	children, err := exec.Command("pgrep", "-P", itoa(h.pid())).Output()
	if err != nil {
		t.Fatal(err)
	}
	child := atoi(t, strings.TrimSpace(string(children)))
	agree(t, mustSnapshot(t, mustOpen(t, child)), h.said)
}

func TestRefusalsSayWhy(t *testing.T) {
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	waitForState(t, other.Process.Pid, "S")
	_, err := Open(other.Process.Pid)
	var e *Error
	if !errors.Is(err, ErrNotGranary) || !errors.As(err, &e) || e.Allocator != "the C library's malloc" {
		t.Errorf("a process with the C library's malloc: %v", err)
	}
	if _, err := Open(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("no process: %v", err)
	}
}

func TestAProcessThatDiesIsGone(t *testing.T) {
	h := hold(t, "wait", quiet)
	target := mustOpen(t, h.pid())
	syscall.Kill(h.pid(), syscall.SIGKILL)
	h.cmd.Wait()
	if _, err := target.Snapshot(); !errors.Is(err, ErrGone) {
		t.Errorf("after its death: %v", err)
	}
}

func TestAStormIsReadInATightLoop(t *testing.T) {
	h := hold(t, "storm", "")
	target := mustOpen(t, h.pid())
	var last uint64
	for range 300 {
		s := mustSnapshot(t, target)
		allocations, _ := s.Value("allocations")
		if allocations < last {
			t.Fatalf("allocations fell from %d to %d", last, allocations)
		}
		last = allocations
		live, _ := s.Value("live")
		used, _ := s.Value("used_spans")
		if live > used+s.Bound+(64<<20) {
			t.Fatalf("live %d is far above the spans' %d", live, used)
		}
	}
}

// The note must be found however the library came into the program.
func TestLinkedProgramsAreRead(t *testing.T) {
	folder := filepath.Dir(testkit.Library(t))
	for name, arguments := range map[string][]string{
		"static, stripped, sections collected": {"-static", "-s", "-Wl,--gc-sections", filepath.Join(folder, "granary.o")},
		"archive":                              {"-Wl,--gc-sections", filepath.Join(folder, "libgranary.a")},
		"linked, stripped":                     {"-s", "-L" + folder, "-lgranary", "-Wl,-rpath," + folder},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(folder, "granary.o")); err != nil {
				t.Skip("granary.o is not built: run make")
			}
			program := filepath.Join(t.TempDir(), "holder")
			line := append([]string{"-O1", "-fno-builtin", "-pthread", "-o", program, "testdata/holder.c"}, arguments...)
			if out, err := exec.Command("cc", line...).CombinedOutput(); err != nil {
				t.Fatalf("cc: %v\n%s", err, out)
			}
			cmd := exec.Command(program, "stop")
			cmd.Env = append(os.Environ(), "GRANARY_CONF="+quiet)
			h := start(t, cmd)
			waitForState(t, h.pid(), "T")
			target := mustOpen(t, h.pid())
			s := mustSnapshot(t, target)
			agree(t, s, h.said)
			mapAgrees(t, mustMap(t, target), s)
		})
	}
}

// A process with more rights is refused, and the message says what is missing: root is not told to become root.
func TestAnotherUsersProcessIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of two users")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("setpriv is not installed")
	}
	h := hold(t, "wait", quiet)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test itself, as user nobody: it must be able to read its own file.
	copied := filepath.Join("/tmp", "granary-inspect-test-"+itoa(os.Getpid()))
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(copied, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(copied) })
	for _, c := range []struct {
		who, says, not string
		args           []string
	}{
		{"another user", "run the command as root, or with the capability CAP_SYS_PTRACE", "by root here",
			[]string{"--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"}},
		{"root of a container", "withholds CAP_SYS_PTRACE", "run the command as root", []string{"--inh-caps=-all", "--bounding-set=-sys_ptrace"}},
	} {
		cmd := exec.Command(setpriv, append(c.args, copied, "-test.run=^TestMain$")...)
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "GRANARY_INSPECT_PID="+itoa(h.pid()))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), c.not) {
			t.Errorf("as %s: %v: %s", c.who, err, out)
		}
	}
}

func TestOtherAllocatorsAreNamed(t *testing.T) {
	found := 0
	for part, name := range map[string]string{
		"libjemalloc.so.2": "jemalloc", "libtcmalloc_minimal.so.4": "TCMalloc", "libmimalloc.so.2.0": "mimalloc", "libmimalloc.so.2": "mimalloc",
	} {
		paths, _ := filepath.Glob("/usr/lib/*/" + part)
		if len(paths) == 0 {
			continue
		}
		found++
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+paths[0])
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitForState(t, cmd.Process.Pid, "S")
		_, err := Open(cmd.Process.Pid)
		var e *Error
		if !errors.As(err, &e) || e.Allocator != name {
			t.Errorf("under %s: %v", part, err)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	if found == 0 {
		t.Skip("no other allocator is installed")
	}
}
