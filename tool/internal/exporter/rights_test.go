package exporter

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// neededRights are those that the manifests give the exporter, which TestTheExporterNeedsOneRight shows to be needed.
const neededRights = "SYS_PTRACE"

// The exporter as the DaemonSet and as the systemd unit run it, and with other rights.
func TestTheExporterNeedsOneRight(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	pid := testkit.NewPrivate(t, sleep).Start(t, "60")
	args := []string{"exporter", "--once", "--command", "^private$"}
	for _, c := range []struct {
		as   string
		cmd  *exec.Cmd
		read bool
	}{
		{"with SYS_PTRACE", testkit.WithRights(t, "-all,+sys_ptrace", args...), true},
		{"without rights", testkit.WithRights(t, "-all", args...), false},
		{"with DAC_READ_SEARCH", testkit.WithRights(t, "-all,+dac_read_search", args...), false},
		{"as a service", testkit.AsService(t, "sys_ptrace", args...), true},
	} {
		c.cmd.Env = append(os.Environ(), asTool+"=1")
		var out, errs bytes.Buffer
		c.cmd.Stdout, c.cmd.Stderr = &out, &errs
		if err := c.cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", c.as, err, errs.String())
		}
		if got := strings.Contains(out.String(), fmt.Sprintf(`granary_live_bytes{command="private",pid="%d"}`, pid)); got != c.read {
			t.Errorf("%s the process is read: %v\n%s", c.as, got, out.String())
		}
	}
}
