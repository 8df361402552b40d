package exporter

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// neededRights are those that the manifests give the exporter, which TestTheExporterNeedsOneRight shows to be needed.
const neededRights = "SYS_PTRACE"

// ofAnotherUser starts a process of user nobody, whose program only that user may read.
func ofAnotherUser(t *testing.T) int {
	t.Helper()
	const nobody = 65534
	folder, err := os.MkdirTemp("/tmp", "granary-rights")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	program := filepath.Join(folder, "private")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, code, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(program, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "60")
	cmd.Env = []string{"LD_PRELOAD=" + readable(t, folder)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	testkit.StartProcess(t, cmd)
	testkit.Await(t, cmd.Process.Pid, "S")
	return cmd.Process.Pid
}

// readable copies the library to where every user can read it.
func readable(t *testing.T, folder string) string {
	t.Helper()
	code, err := os.ReadFile(testkit.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "libgranary.so")
	if err := os.WriteFile(path, code, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The exporter as the DaemonSet runs it: user 0 without any right but these, without new ones, without a folder that it
// may write to.
func TestTheExporterNeedsOneRight(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs setpriv and root")
	}
	pid := ofAnotherUser(t)
	for rights, read := range map[string]bool{"-all,+sys_ptrace": true, "-all": false, "-all,+dac_read_search": false} {
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -o remount,bind,ro / && exec "$@"`, "sh",
			setpriv, "--bounding-set", rights, "--inh-caps", rights, "--no-new-privs", os.Args[0], "exporter", "--once", "--command", "^private$")
		cmd.Env = append(os.Environ(), asTool+"=1")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", rights, err, errs.String())
		}
		if got := strings.Contains(out.String(), fmt.Sprintf(`granary_live_bytes{command="private",pid="%d"}`, pid)); got != read {
			t.Errorf("with %s the process is read: %v\n%s", rights, got, out.String())
		}
	}
}
