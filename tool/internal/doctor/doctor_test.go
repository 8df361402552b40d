package doctor

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// world is a machine made of files.
func world(t *testing.T, files map[string]string) World {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return World{Proc: procfs.FS{Root: filepath.Join(root, "proc")}, Sys: filepath.Join(root, "sys"), Etc: filepath.Join(root, "etc"), UID: 1000}
}

func TestASystemWithEveryFaultAndOneWithNone(t *testing.T) {
	const thp = "sys/kernel/mm/transparent_hugepage/"
	bad := world(t, map[string]string{
		"proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/max_map_count": "4096\n", "proc/sys/kernel/yama/ptrace_scope": "3\n",
		thp + "enabled": "[always] madvise never\n", thp + "khugepaged/max_ptes_none": "511\n",
		"etc/ld.so.preload": "/nowhere/libgranary.so\n",
	})
	var out bytes.Buffer
	System(bad).write(&out, 80)
	testkit.Check(t, "testdata/bad-system.golden", out.Bytes())

	good := world(t, map[string]string{
		"proc/sys/vm/overcommit_memory": "0\n", "proc/sys/vm/max_map_count": "65530\n", "proc/sys/kernel/yama/ptrace_scope": "0\n",
		thp + "enabled": "always [madvise] never\n", thp + "khugepaged/max_ptes_none": "511\n",
	})
	out.Reset()
	System(good).write(&out, 80)
	testkit.Check(t, "testdata/good-system.golden", out.Bytes())
	out.Reset()
	if err := term.JSON(&out, System(good)); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/good-system.json", out.Bytes())
}

func TestRestrictedTracingIsNoFaultForRoot(t *testing.T) {
	w := world(t, map[string]string{"proc/sys/kernel/yama/ptrace_scope": "1\n"})
	if f := ptraceScope(w, struct{}{}); len(f) != 1 || f[0].Severity != Warning {
		t.Errorf("as a user: %+v", f)
	}
	w.UID = 0
	if f := ptraceScope(w, struct{}{}); len(f) != 0 {
		t.Errorf("as root: %+v", f)
	}
}

func found(t *testing.T, r Report, check string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Errorf("no finding of %q in %+v", check, r.Findings)
	return Finding{}
}

func examined(t *testing.T, pid int) Report {
	t.Helper()
	r, err := Process(Live(os.Environ(), ""), pid)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPreloadOfAMissingFile(t *testing.T) {
	f := found(t, examined(t, testkit.Sleep(t, "LD_PRELOAD=/nowhere/libgranary.so").Pid), "preload")
	if f.Severity != Problem || !strings.Contains(f.What, "the file does not exist") {
		t.Errorf("%+v", f)
	}
}

func TestAPreloadOfALibraryForAnotherMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libgranary.so")
	header := make([]byte, 64)
	copy(header, "\x7fELF\x01\x01\x01")
	header[16], header[18], header[20], header[40] = 3, 3, 1, 52 // a shared library for i386, 52 bytes of header
	if err := os.WriteFile(path, header, 0o755); err != nil {
		t.Fatal(err)
	}
	f := found(t, examined(t, testkit.Sleep(t, "LD_PRELOAD="+path).Pid), "preload")
	if f.Severity != Problem || !strings.Contains(f.What, "another architecture") {
		t.Errorf("%+v", f)
	}
}

func TestSettingsOfAnotherAllocator(t *testing.T) {
	f := found(t, examined(t, testkit.Sleep(t, "LD_PRELOAD=", "GRANARY_CONF=dirty_decay_ms:1").Pid), "options")
	if f.Severity != Warning || !strings.Contains(f.What, "GRANARY_CONF is set, but glibc does not read it") {
		t.Errorf("%+v", f)
	}
}

// Variables that are for the C library's malloc each get a word under Granary, in both spellings; those of
// gperftools that Granary reads get none.
func TestSettingsThatGranaryReadsOrNot(t *testing.T) {
	environ := []string{"MALLOC_ARENA_MAX=2", "MALLOC_TOP_PAD_=1", "TCMALLOC_RELEASE_RATE=5",
		"GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1:glibc.rtld.nns=4"}
	var said []string
	for _, f := range ofOthers(World{}, inspect.Granary, environ) {
		said = append(said, f.What+"; "+f.Remedy)
	}
	want := []string{
		"MALLOC_ARENA_MAX is set, but granary does not read it; set instead: nothing: Granary has a cache for each CPU and no arenas",
		"MALLOC_TOP_PAD_ is set, but granary does not read it; set instead: GRANARY_CONF=dirty_decay_ms:MILLISECONDS",
		"glibc.malloc.arena_max is set, but granary does not read it; set instead: nothing: Granary has a cache for each CPU and no arenas",
		"glibc.malloc.hugetlb is set, but granary does not read it; set instead: GRANARY_CONF=huge_pages:always",
	}
	if !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
	said = nil
	for _, f := range ofOthers(World{}, "jemalloc", environ[3:]) {
		said = append(said, f.Remedy)
	}
	if want := []string{"remove glibc.malloc.arena_max from GLIBC_TUNABLES", "remove glibc.malloc.hugetlb from GLIBC_TUNABLES"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
}

func TestRestartableSequencesSwitchedOff(t *testing.T) {
	for conf, want := range map[string]int{"rseq:false": 1, "cache_max:64KiB,rseq=false": 1, "rseq:true": 0, "": 0} {
		p := process{running: inspect.Running{Name: inspect.Granary}, environ: []string{"GRANARY_CONF=" + conf}}
		if f := rseqOff(World{}, p); len(f) != want {
			t.Errorf("GRANARY_CONF=%s: %+v", conf, f)
		}
	}
}

func TestALimitedAddressSpace(t *testing.T) {
	cmd := exec.Command("sh", "-c", "ulimit -v 1000000; exec sleep 60")
	testkit.StartProcess(t, cmd)
	for range 500 {
		if name, err := procfs.Live().Comm(cmd.Process.Pid); err == nil && name == "sleep" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if f := found(t, examined(t, cmd.Process.Pid), "address space limit"); !strings.Contains(f.What, "977 MiB") {
		t.Errorf("%+v", f)
	}
}

func TestAStaticProgramCannotBePreloaded(t *testing.T) {
	library := filepath.Join("..", "..", "..", "build", "lib", "libgranary.so")
	if _, err := os.Stat(library); err != nil {
		t.Skip("the library is not built")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "m.c"), filepath.Join(dir, "m")
	if err := os.WriteFile(source, []byte("#include <stdlib.h>\nvoid* malloc(size_t n) { static char b[64]; return n < 64 ? b : 0; }\nint main(void) { return malloc(1) == 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"-static": "is a static program", "-rdynamic": "the program defines malloc itself"} {
		if out, err := exec.Command(cc, "-w", "-fno-builtin", flag, "-o", program, source).CombinedOutput(); err != nil {
			t.Logf("%s left out: %v %s", flag, err, out)
			continue
		}
		report, err := Program(Live(os.Environ(), library), program)
		if err != nil || report.Problems() != 1 || !strings.Contains(report.Findings[0].What, want) {
			t.Errorf("%s: %+v, %v", flag, report, err)
		}
	}
}

func TestWrongOptionsOfARunningProcess(t *testing.T) {
	library, err := filepath.Abs(filepath.Join("..", "..", "..", "build", "lib", "libgranary.so"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(library); err != nil {
		t.Skip("the library is not built")
	}
	f := found(t, examined(t, testkit.Sleep(t, "LD_PRELOAD="+library, "GRANARY_CONF=dirty_dekay_ms:1").Pid), "options")
	if f.Severity != Problem || !strings.Contains(f.What, `there is no option "dirty_dekay_ms"; did you mean "dirty_decay_ms"?`) {
		t.Errorf("%+v", f)
	}
}

func TestAHeapWhoseDescriptionWasOverwritten(t *testing.T) {
	library, err := filepath.Abs(filepath.Join("..", "..", "..", "build", "lib", "libgranary.so"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(library); err != nil {
		t.Skip("the library is not built")
	}
	pid := testkit.Sleep(t, "LD_PRELOAD="+library).Pid
	if r := examined(t, pid); !slices.Contains(r.Fine, "reading") {
		t.Errorf("a healthy process: %+v", r.Findings)
	}
	// Every magic word in the library's data becomes another.
	memory, err := os.OpenFile(procfs.Live().Path(pid, "mem"), os.O_RDWR, 0)
	if err != nil {
		t.Skipf("the memory of the process cannot be written: %v", err)
	}
	defer memory.Close()
	maps, err := procfs.Live().Maps(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if !strings.Contains(m.Path, "libgranary") {
			continue
		}
		data := make([]byte, m.End-m.Start)
		if _, err := memory.ReadAt(data, int64(m.Start)); err != nil {
			continue // a guard
		}
		for at := 0; ; at++ {
			i := bytes.Index(data[at:], []byte("granary\x00"))
			if i < 0 {
				break
			}
			at += i
			if _, err := memory.WriteAt([]byte("?"), int64(m.Start)+int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := found(t, examined(t, pid), "reading")
	if f.Severity != Problem || !strings.Contains(f.What, "its heap cannot be read: ") {
		t.Errorf("%+v", f)
	}
}

func TestTheCommandEndsWithOneOnlyForProblems(t *testing.T) {
	call := func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		env := cli.Env{Stdout: &out, Stderr: &errs, Environ: os.Environ()}
		code := cli.Main(context.Background(), env, []cli.Command{Command}, append([]string{"doctor"}, args...))
		return out.String(), errs.String(), code
	}
	if _, errs, code := call("no-such-program-anywhere"); code != 1 || !strings.Contains(errs, "is in no folder of PATH") {
		t.Errorf("code %d, said %q", code, errs)
	}
	if _, errs, code := call("1", "2"); code != cli.CodeUsage || !strings.Contains(errs, "one argument too many") {
		t.Errorf("code %d, said %q", code, errs)
	}
	if _, errs, code := call("1073741824"); code != 1 || !strings.Contains(errs, "there is no process") {
		t.Errorf("code %d, said %q", code, errs)
	}
}

func TestAStaticProcessIsReportedWhatPreloadingCannotDo(t *testing.T) {
	for _, c := range []struct {
		name, how string
		notes     int
	}{
		{"glibc", inspect.Static, 1},
		{"Go", inspect.Static, 0},
		{inspect.Granary, inspect.Static, 0},
		{"glibc", inspect.System, 0},
	} {
		p := process{running: inspect.Running{Name: c.name, How: c.how}}
		if found := staticProgram(World{}, p); len(found) != c.notes {
			t.Errorf("%+v: %+v", c, found)
		}
	}
}
