package scenarios

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// asCommand in the environment makes the test's own program `granary bench all`, as the real command is: with
// an interrupt that ends its context.
const asCommand = "GRANARY_TEST_BENCH_ALL"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(noSamples) != "" {
		if err := refuse(unix.SYS_PERF_EVENT_OPEN); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := cli.Main(ctx, cli.Live("test"), []cli.Command{Command}, append([]string{"bench", "all"}, strings.Fields(os.Getenv(asCommand))...))
	os.Exit(code)
}

// noSamples in the environment makes the kernel refuse samples, as it does in most containers.
const noSamples = "GRANARY_TEST_NO_SAMPLES"

// refuse makes a system call fail with EPERM in this process and its children.
func refuse(number uint32) error {
	const errno = 0x00050000 | uint32(unix.EPERM) // SECCOMP_RET_ERRNO
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: errno},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}, // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, 1, 1, uintptr(unsafe.Pointer(&program))) // a filter, for all threads
	if failed != 0 {
		return failed
	}
	return nil
}

// servers are small runs of every kind of server: of one process and of several, on the loopback and on sockets.
const servers = `
[[scenario]]
name = "redis"
args = ["--requests", "1000", "--values", "3", "--parts", "fall", "--settle", "50ms"]
[[scenario]]
name = "memcached"
args = ["--time", "200ms", "--rate", "500", "--connections", "2", "--settle", "50ms"]
[[scenario]]
name = "nginx"
args = ["--time", "1s", "--connections", "4", "--pages", "plain", "--settle", "50ms"]
[[scenario]]
name = "kv"
args = ["--requests", "1000", "--values", "100", "--settle", "50ms"]
[[scenario]]
name = "postgres"
args = ["--time", "1s", "--clients", "2", "--scale", "1", "--workloads", "select-only", "--settle", "50ms"]
[[scenario]]
name = "mariadb"
args = ["--time", "1s", "--threads", "2", "--rows", "1000", "--warmup", "1s", "--workloads", "oltp_read_only", "--settle", "50ms"]
`

// a live run is the command in a separate process.
type live struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	dir  string              // of the results
	temp string              // for temporary files
	seen map[int]string      // processes below it, by name
	ears map[string]struct{} // addresses that they listened on
	done chan struct{}       // closed when the command has ended
}

func start(t *testing.T, text string, args ...string) *live {
	t.Helper()
	temp, err := os.MkdirTemp("", "granary-live-") // servers that run as others work there, so no folder of t's
	if err == nil {
		err = os.Chmod(temp, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	l := &live{dir: t.TempDir(), temp: temp, seen: map[int]string{}, ears: map[string]struct{}{}, done: make(chan struct{})}
	suite := filepath.Join(t.TempDir(), "suite.toml")
	if err := os.WriteFile(suite, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := append([]string{"--suite", suite, "--out", l.dir, "--allocators", "glibc"}, args...)
	l.cmd = exec.Command(exe)
	l.cmd.Env = append(os.Environ(), asCommand+"="+strings.Join(words, " "), "TMPDIR="+l.temp)
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = l.cmd.Wait() // its state tells
		close(l.done)
	}()
	return l
}

// watch reads the processes and sockets below the command until it ends, or enough is true.
func (l *live) watch(enough func() bool) {
	for !enough() {
		l.look()
		select {
		case <-l.done:
			return
		case <-time.After(15 * time.Millisecond):
		}
	}
}

func (l *live) end() { l.watch(func() bool { return false }) }

func (l *live) look() {
	proc := procfs.Live()
	for _, pid := range proc.Tree(l.cmd.Process.Pid)[1:] {
		if name, err := proc.Comm(pid); err == nil {
			l.seen[pid] = name
		}
		maps.Copy(l.ears, listening(pid))
	}
}

// listening are the addresses of TCP that a process listens on.
func listening(pid int) map[string]struct{} {
	own := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // well formed
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	out := map[string]struct{}{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table)) // it may have ended
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == "0A" && own[fields[9]] {
				out[address(fields[1])] = struct{}{}
			}
		}
	}
	return out
}

// address reads one of /proc/net/tcp: words of four bytes in the machine's order, and a port.
func address(text string) string {
	host, _, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		return text
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	return net.IP(raw).String()
}

// left are the descendants of the command that still run.
func (l *live) left() []string {
	var out []string
	for range 200 { // the kernel ends processes without a parent
		out = nil
		for pid, name := range l.seen {
			st, err := procfs.Live().Stat(pid)
			if now, nameErr := procfs.Live().Comm(pid); err == nil && nameErr == nil && now == name && st.State != "Z" {
				out = append(out, name+" "+strconv.Itoa(pid))
			}
		}
		if out == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return out
}

func TestWhereTheKernelGivesNoSamplesTheServersAreStopped(t *testing.T) {
	t.Setenv(noSamples, "1")
	l := start(t, "[[scenario]]\nname = \"python\"\nargs = [\"--size\", \"2\"]\n", "--rounds", "1")
	l.end()
	r, err := result.Read(filepath.Join(l.dir, "python"))
	if err != nil || l.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("%v\n%s", err, l.out.String())
	}
	if share, ok := r.Values("glibc", result.Key{Phase: "the program", Metric: runner.MetricShare})[0]; !ok || share <= 0 || share > 60 {
		t.Errorf("the allocator's share is %v %%, %v", share, ok)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "taken by stopping") }) {
		t.Errorf("notes %q", r.Notes)
	}
}

func (l *live) names() []string { return slices.Sorted(maps.Values(l.seen)) }

func TestServersListenOnTheLoopbackOnlyAndNothingOfThemIsLeft(t *testing.T) {
	for _, s := range All {
		for _, need := range s.Needs {
			if _, err := need.Find(); err != nil && strings.Contains(servers, `"`+s.Name+`"`) {
				t.Skip(err)
			}
		}
	}
	l := start(t, servers, "--rounds", "1")
	l.end()
	if code := l.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("code %d\n%s", code, l.out.String())
	}
	for _, server := range []string{"redis-server", "memcached", "nginx", "kv_server", "postgres", "mariadbd"} {
		if !slices.Contains(l.names(), server) {
			t.Errorf("%s was not seen among %q", server, slices.Compact(l.names()))
		}
	}
	if len(l.ears) == 0 {
		t.Error("nothing was seen to listen")
	}
	for ear := range l.ears {
		if !net.ParseIP(ear).IsLoopback() {
			t.Errorf("something listens on %s", ear)
		}
	}
	if left := l.left(); left != nil {
		t.Errorf("still running: %q", left)
	}
	if left, _ := filepath.Glob(l.temp + "/*"); left != nil {
		t.Errorf("left in the folder for temporary files: %q", left)
	}
}

// stopped runs a suite without end, signals the command in its second round or later, and returns it ended.
func stopped(t *testing.T, kind syscall.Signal) *live {
	t.Helper()
	l := start(t, servers, "--only", "redis", "--rounds", "10000")
	l.watch(func() bool {
		r, err := result.Read(filepath.Join(l.dir, "redis"))
		return err == nil && r.Rounds > 0 && slices.Contains(l.names(), "redis-server")
	})
	if err := l.cmd.Process.Signal(kind); err != nil {
		t.Fatalf("%v\n%s", err, l.out.String())
	}
	l.end()
	if left := l.left(); left != nil {
		t.Errorf("still running: %q", left)
	}
	r, err := result.Read(filepath.Join(l.dir, "redis"))
	if err != nil || r.Rounds < 1 || r.RoundsOf("glibc") != r.Rounds {
		t.Errorf("the finished rounds are lost: %+v, %v", r, err)
	}
	return l
}

func TestCtrlCLeavesNoProcessAndKeepsTheRounds(t *testing.T) {
	l := stopped(t, syscall.SIGINT)
	if code := l.cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(l.out.String(), "the same command continues from there") {
		t.Errorf("code %d\n%s", code, l.out.String())
	}
	if _, err := os.Stat(filepath.Join(l.dir, "redis", "report.html")); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(l.temp + "/*"); left != nil {
		t.Errorf("left in the folder for temporary files: %q", left)
	}
}

func TestAKilledRunLeavesNoServerAndKeepsTheRounds(t *testing.T) {
	l := stopped(t, syscall.SIGKILL)
	before, _ := result.Read(filepath.Join(l.dir, "redis")) // read by stopped
	if out, err := all(t, l.dir, servers, "--only", "redis", "--rounds", strconv.Itoa(before.Rounds+1)); err != nil || rounds(t, l.dir, "redis") != before.Rounds+1 {
		t.Errorf("it does not go on: %v\n%s", err, out)
	}
}
