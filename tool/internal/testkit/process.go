package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// StartProcess starts a command, which is killed when the test ends.
func StartProcess(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}

// Python starts a program of python3's with these variables added to the test's own, and waits until it
// prints "ready". The test is skipped where there is no python3.
func Python(t testing.TB, program string, environ ...string) *os.Process {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	cmd := exec.Command(python, "-c", program)
	cmd.Env = append(os.Environ(), environ...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	StartProcess(t, cmd)
	line := make([]byte, 16)
	if n, err := out.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "ready") {
		t.Fatalf("python wrote %q (%v)", line[:n], err)
	}
	return cmd.Process
}

// Sleep starts a process that sleeps for a minute, with these variables added to the test's own.
func Sleep(t testing.TB, environ ...string) *os.Process {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.Env = append(os.Environ(), environ...)
	StartProcess(t, cmd)
	Await(t, cmd.Process.Pid, "S")
	return cmd.Process
}

// Await waits until the state of a process is this letter of /proc: after a start, "S" says that its exec
// is over. The test fails after five seconds.
func Await(t testing.TB, pid int, state string) {
	t.Helper()
	for range 500 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(status), "\nState:\t"+state) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d does not come to state %s", pid, state)
}
