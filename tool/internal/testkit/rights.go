package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// nobody is a user without rights, which owns no other process of a test.
const nobody = 65534

// A Private is a folder that every user may read, with the library and a program that only user nobody may read.
type Private struct{ library, program string }

// NewPrivate copies a program to where it is called private. The test is skipped without root.
func NewPrivate(t testing.TB, program string) Private {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	folder, err := os.MkdirTemp("/tmp", "granary-rights")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	p := Private{library: filepath.Join(folder, "libgranary.so"), program: filepath.Join(folder, "private")}
	copyTo(t, Library(t), p.library, 0o644)
	copyTo(t, program, p.program, 0o700)
	if err := os.Chown(p.program, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return p
}

func copyTo(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	code, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, code, mode); err != nil {
		t.Fatal(err)
	}
}

// Start starts the program under the library as user nobody, and waits until it sleeps.
func (p Private) Start(t testing.TB, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(p.program, args...)
	cmd.Env = []string{"LD_PRELOAD=" + p.library}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	StartProcess(t, cmd)
	Await(t, cmd.Process.Pid, "S")
	return cmd.Process.Pid
}

// WithRights is a command of this test's program as a DaemonSet runs it: user 0 without any capability but these (as
// setpriv writes them), without new ones, without a folder that it may write to.
func WithRights(t testing.TB, rights string, args ...string) *exec.Cmd {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs setpriv and root")
	}
	line := append([]string{"--mount", "sh", "-c", `mount -o remount,bind,ro / && exec "$@"`, "sh",
		setpriv, "--bounding-set", rights, "--inh-caps", rights, "--no-new-privs", os.Args[0]}, args...)
	return exec.Command("unshare", line...)
}

// AsService is a command of this test's program as a systemd unit with DynamicUser runs it: a user of its own with this
// capability and no other.
func AsService(t testing.TB, capability string, args ...string) *exec.Cmd {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs setpriv and root")
	}
	folder, err := os.MkdirTemp("/tmp", "granary-service")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "service")
	copyTo(t, os.Args[0], program, 0o755)
	line := append([]string{"--reuid", "64999", "--regid", "64999", "--clear-groups", "--inh-caps", "+" + capability,
		"--ambient-caps", "+" + capability, "--bounding-set", "-all,+" + capability, "--no-new-privs", program}, args...)
	return exec.Command(setpriv, line...)
}
