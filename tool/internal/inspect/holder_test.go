package inspect

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

var compileOnce sync.Once

// holder compiles testdata/holder.c, once for all tests.
func holder(t testing.TB) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), "granary-inspect-holder-"+strconv.Itoa(os.Getpid()))
	compileOnce.Do(func() {
		if out, err := exec.Command("cc", "-O1", "-fno-builtin", "-pthread", "-o", path, "testdata/holder.c").CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
	})
	return path
}

func TestMain(m *testing.M) {
	if pid := os.Getenv("GRANARY_INSPECT_PID"); pid != "" { // TestAnotherUsersProcessIsRefused sets it
		n, err := strconv.Atoi(pid)
		if err == nil {
			_, err = Open(n)
		}
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	os.Remove(filepath.Join(os.TempDir(), "granary-inspect-holder-"+strconv.Itoa(os.Getpid())))
	os.Exit(code)
}

// A held is a running holder and its figures of its heap.
type held struct {
	cmd  *exec.Cmd
	said map[string]uint64
}

func (h *held) pid() int { return h.cmd.Process.Pid }

var figure = regexp.MustCompile(`<granary name="([a-z_]+)" unit="[a-z]+" value="([0-9]+)"/>`)

// hold starts the holder under the library with options, and waits until its heap is built.
func hold(t testing.TB, mode, options string) *held {
	t.Helper()
	cmd := exec.Command(holder(t), mode)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF="+options)
	return start(t, cmd)
}

func start(t testing.TB, cmd *exec.Cmd) *held {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left := publishedPath(cmd.Process.Pid) // by a killed process
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		os.Remove(left)
	})
	h := &held{cmd, map[string]uint64{}}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		if m := figure.FindStringSubmatch(lines.Text()); m != nil {
			h.said[m[1]], _ = strconv.ParseUint(m[2], 10, 64)
		}
	}
	if len(h.said) == 0 {
		t.Fatal("the holder said nothing of its heap")
	}
	return h
}

// waitForState waits until the process is in a state of /proc/PID/stat.
func waitForState(t testing.TB, pid int, state string) {
	t.Helper()
	for range 1000 {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && strings.HasPrefix(string(text)[strings.LastIndexByte(string(text), ')')+1:], " "+state) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("process %d did not reach state %s", pid, state)
}

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
