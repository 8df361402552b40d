package why

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// start runs a command under Granary, or under the system's allocator, and ends it with the test.
func start(t *testing.T, preload string, words ...string) (int, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.StartProcess(t, cmd)
	return cmd.Process.Pid, bufio.NewScanner(out)
}

// program compiles and starts a program of testdata, and waits until it is ready.
func program(t *testing.T, preload, name string, args ...string) (pid int, said string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command(cc, "-O1", "-fno-builtin", "-pthread", "-o", path, "testdata/"+name+".c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	pid, lines := start(t, preload, append([]string{path}, args...)...)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "ready"); ok {
			return pid, strings.TrimSpace(rest)
		}
	}
	t.Fatalf("%s ended before it was ready", name)
	return 0, ""
}

// explained reads the process while it is stopped, and checks that the waterfall adds up: to the
// kernel's figure for the whole process, and page by page to its figures for the heap's mappings.
func explained(t *testing.T, pid int) Waterfall {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	for range 500 {
		if st, err := procfs.Live().Stat(pid); err == nil && st.State == "T" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w, err := Explain(procfs.Live(), pid)
	if err != nil {
		t.Fatal(err)
	}
	unmatched := float64(w.Bytes("unmatched")) / float64(w.Kernel)
	t.Logf("RSS %d, the sum is off by %.4f %%, heap pages by %.4f %%", w.Kernel, 100*w.Error(), 100*unmatched)
	if math.Abs(w.Error()) > 0.01 || math.Abs(unmatched) > 0.01 || w.Bytes("anonymous") < 0 {
		t.Errorf("the waterfall is off by %.2f %%, the heap's pages by %.2f %%: %+v", 100*w.Error(), 100*unmatched, w.Steps)
	}
	if len(w.Causes) == 0 || w.Causes[0].What == "" || w.Causes[0].Do == "" {
		t.Errorf("causes %+v", w.Causes)
	}
	return w
}

func TestABlockThatWasNeverTouchedHasNoShareOfRSS(t *testing.T) {
	pid := testkit.Python(t, "import ctypes, time\nm = ctypes.CDLL(None).malloc\nm.argtypes = [ctypes.c_size_t]\nm.restype = ctypes.c_void_p\nheld = m(320 << 20)\nprint('ready', flush=True)\ntime.sleep(60)",
		"LD_PRELOAD="+testkit.Library(t)).Pid
	var out bytes.Buffer
	explained(t, pid).write(&out, 80)
	for _, share := range regexp.MustCompile(`([0-9.]+) %`).FindAllStringSubmatch(out.String(), -1) {
		if value, err := strconv.ParseFloat(share[1], 64); err != nil || value > 100 {
			t.Errorf("a share of %s %%:\n%s", share[1], out.String())
		}
	}
}

func TestFragmentedHeap(t *testing.T) {
	pid, said := program(t, testkit.Library(t), "fragments", "100000")
	var live int64
	if _, err := fmt.Sscan(said, &live); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	w := explained(t, pid)
	if got := w.Bytes("live"); math.Abs(float64(got-live)) > 0.01*float64(live) {
		t.Errorf("live %d, the program says %d", got, live)
	}
	if untouched := -w.Bytes("untouched"); untouched < 8<<20 || untouched > 28<<20 {
		t.Errorf("%d bytes untouched; the program left 27 MiB so, of which some are pages that were used before", untouched)
	}
	// The kernel's pages of the heap, and the program's own count of live bytes, give the ratio as well;
	// blocks that were never touched are live, but not resident.
	inside := w.Bytes("granary") - w.Bytes("library") - w.Bytes("huge") - w.Bytes("untouched")
	if ratio := float64(inside) / float64(live); math.Abs(w.Fragmentation-ratio) > 0.05*ratio {
		t.Errorf("fragmentation ratio %.3f, by pages and the program's count %.3f", w.Fragmentation, ratio)
	}
	if w.Bytes("partial") < 1<<20 {
		t.Errorf("free objects in slabs take %d bytes, although nine tenths were freed", w.Bytes("partial"))
	}
}

func TestHeapsOfTheProgramsOwn(t *testing.T) {
	pid, said := program(t, testkit.Library(t), "arenas")
	var live int64
	if _, err := fmt.Sscan(said, &live); err != nil {
		t.Fatal(err)
	}
	w := explained(t, pid)
	if got := w.Bytes("own"); math.Abs(float64(got-live)) > 0.01*float64(live) {
		t.Errorf("live %d, the program says %d", got, live)
	}
	if free := w.Bytes("own_free"); free < 10<<20 || free > 24<<20 {
		t.Errorf("%d bytes free; the program freed 15 MiB among what lives", free)
	}
	if other := w.Bytes("anonymous"); other > 1<<20 {
		t.Errorf("%d bytes of other anonymous memory", other)
	}
	if w.Causes[0].Key != "own" || !strings.Contains(w.Causes[0].What, "2 heaps") {
		t.Errorf("causes %+v", w.Causes)
	}
}

func TestFourThousandThreads(t *testing.T) {
	pid, _ := program(t, testkit.Library(t), "threads", "4096")
	w := explained(t, pid)
	if w.Bytes("stacks") < 4096*4096 {
		t.Errorf("stacks of 4,096 threads take %d bytes", w.Bytes("stacks"))
	}
}

func TestRedis(t *testing.T) {
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	pid, _ := start(t, testkit.Library(t), redis, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--enable-debug-command", "yes")
	cli := func(words ...string) {
		for range 500 {
			if out, err := exec.Command("redis-cli", append([]string{"-s", socket}, words...)...).CombinedOutput(); err == nil && !strings.Contains(string(out), "refused") {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("redis-cli %v had no answer", words)
	}
	cli("ping")
	cli("debug", "populate", "300000", "k", "300")
	w := explained(t, pid)
	if w.Bytes("live") < 90<<20 || w.Causes[0].Key != "live" {
		t.Errorf("live %d, causes %+v", w.Bytes("live"), w.Causes)
	}
	cli("eval", "for i = 1, 270000 do redis.call('del', 'k:' .. i) end", "0")
	if after := explained(t, pid); after.Bytes("live") > w.Bytes("live")/3 {
		t.Errorf("live %d after deleting nine tenths of %d", after.Bytes("live"), w.Bytes("live"))
	}
}

func TestMariaDB(t *testing.T) {
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil || testing.Short() {
		t.Skip("there is no mariadb-install-db, or the run is a short one")
	}
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server = "/usr/sbin/mariadbd"
	}
	dir := t.TempDir()
	root := []string{"--user=root"}
	if os.Geteuid() != 0 {
		root = nil
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.Command(install, append([]string{"--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db"},
		root...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	socket := filepath.Join(dir, "s")
	pid, _ := start(t, testkit.Library(t), append([]string{server, "--no-defaults", "--datadir=" + data, "--socket=" + socket, "--skip-networking",
		"--pid-file=" + dir + "/pid"}, root...)...)
	for range 3000 {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w := explained(t, pid)
	if w.Bytes("live") < 20<<20 || w.Bytes("stacks") == 0 {
		t.Errorf("%+v", w.Steps)
	}
}

func TestProcessesUnderOtherAllocators(t *testing.T) {
	preloads := map[string]string{"glibc": ""}
	for name, pattern := range map[string]string{"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"} {
		if paths, _ := filepath.Glob("/usr/lib/*/" + pattern); len(paths) > 0 { // the pattern is well formed
			preloads[name] = paths[0]
		}
	}
	for name, preload := range preloads {
		t.Run(name, func(t *testing.T) {
			pid, _ := program(t, preload, "threads", "64")
			w := explained(t, pid)
			if w.Allocator != name && name != "glibc" || w.Bytes("stacks") < 64*4096 {
				t.Errorf("%s: %+v", w.Allocator, w.Steps)
			}
			if w.Allocator == "glibc" && w.Bytes("arenas") < 64<<10 {
				t.Errorf("arenas of glibc take %d bytes", w.Bytes("arenas"))
			}
		})
	}
}

func TestACoreFile(t *testing.T) {
	gcore, err := exec.LookPath("gcore")
	if err != nil {
		t.Skip("there is no gcore")
	}
	pid, said := program(t, testkit.Library(t), "fragments", "20000")
	prefix := filepath.Join(t.TempDir(), "core")
	if out, err := exec.Command(gcore, "-o", prefix, fmt.Sprint(pid)).CombinedOutput(); err != nil {
		t.Skipf("no core: %v\n%s", err, out)
	}
	var live int64
	if _, err := fmt.Sscan(said, &live); err != nil {
		t.Fatal(err)
	}
	w, err := read(fmt.Sprintf("%s.%d", prefix, pid))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Bytes("live"); math.Abs(float64(got-live)) > 0.01*float64(live) || w.RSS < uint64(live) || len(w.Causes) == 0 {
		t.Errorf("live %d, the program says %d: %+v", got, live, w)
	}
	for _, name := range []string{"/dev/null", "/nowhere"} {
		if _, err := read(name); err == nil {
			t.Errorf("%s was explained", name)
		}
	}
}
