package inspect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func TestAProcessIsFoundByItsName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep")
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("only-%d", os.Getpid())
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	started := func() int {
		cmd := exec.Command(path, "60")
		testkit.StartProcess(t, cmd)
		testkit.Await(t, cmd.Process.Pid, "S")
		return cmd.Process.Pid
	}
	first := started()
	if pid, err := FindProcess(procfs.Live(), name); err != nil || pid != first {
		t.Errorf("%d, %v; want %d", pid, err, first)
	}
	if pid, err := FindProcess(procfs.Live(), fmt.Sprint(first)); err != nil || pid != first {
		t.Errorf("%d, %v; want %d", pid, err, first)
	}
	second := started()
	_, err = FindProcess(procfs.Live(), name)
	if err == nil || !strings.Contains(err.Error(), "2 processes are called") || !strings.Contains(err.Error(), fmt.Sprint(first)) ||
		!strings.Contains(err.Error(), fmt.Sprint(second)) {
		t.Errorf("said %v", err)
	}
	if _, err := FindProcess(procfs.Live(), "nobody-is-called-so"); err == nil || !strings.Contains(err.Error(), `there is no process called "nobody-is-called-so"`) {
		t.Errorf("said %v", err)
	}
}
