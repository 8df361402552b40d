package top

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The real program in a real terminal: tmux prints the content of its screen.
func TestInATerminal(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("there is no tmux")
	}
	program, err := filepath.Abs("../../../build/bin/granary")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("the command is not built: run make")
	}
	victim := exec.Command("sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = victim.Process.Kill()
		_ = victim.Wait() // it was killed
	}()
	socket := filepath.Join(t.TempDir(), "tmux")
	run := func(args ...string) string {
		out, err := exec.Command(tmux, append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("new-session", "-d", "-s", "top", "-x", "100", "-y", "30", fmt.Sprintf("%s top %d --interval 100ms; echo ended with $?; sleep 60", program, victim.Process.Pid))
	defer func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() }() // it may have ended
	shows := func(want string) {
		t.Helper()
		screen := ""
		for range 300 {
			if screen = run("capture-pane", "-p", "-t", "top"); strings.Contains(screen, want) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("the screen never showed %q, but:\n%s", want, screen)
	}
	shows("RSS in MiB, the last")
	shows("resident memory by kind of mapping")
	run("send-keys", "-t", "top", "?")
	shows("any key returns")
	run("send-keys", "-t", "top", "x")
	shows("RSS in MiB, the last")
	run("send-keys", "-t", "top", "Space")
	shows("PAUSED")
	run("send-keys", "-t", "top", "q")
	shows("ended with 0")
}
