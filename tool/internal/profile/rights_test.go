package profile

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

// The agent as the DaemonSet and as the systemd unit run it, and with other rights: which of two processes it profiles,
// one of user nobody and one without rights of user 0.
func TestTheAgentNeedsOneRight(t *testing.T) {
	program := testkit.Compile(t, busy)
	private := testkit.NewPrivate(t, program)
	others := private.Start(t)
	if err := os.Rename(program, program+"-private"); err != nil { // the name that --command selects
		t.Fatal(err)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv")
	}
	own := exec.Command(setpriv, "--bounding-set", "-all", "--inh-caps", "-all", program+"-private")
	own.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	testkit.StartProcess(t, own)
	testkit.Await(t, own.Process.Pid, "S")
	for _, c := range []struct {
		as    string
		start func(t testing.TB, right string, args ...string) *exec.Cmd
		right string
		sees  bool
	}{
		{"with SYS_PTRACE", testkit.WithRights, "-all,+sys_ptrace", true},
		{"without rights", testkit.WithRights, "-all", false},
		{"with DAC_READ_SEARCH", testkit.WithRights, "-all,+dac_read_search", false},
		{"as a service", testkit.AsService, "sys_ptrace", true},
	} {
		t.Run(c.as, func(t *testing.T) {
			server := &counted{profiles: map[string]int{}}
			mux := http.NewServeMux()
			mux.Handle(pushv1connect.NewPusherServiceHandler(server))
			listener := httptest.NewServer(mux)
			defer listener.Close()
			cmd := c.start(t, c.right, "profile", "agent", "--push", listener.URL, "--every", "1s", "--rate", "16KiB", "--cpu-share", "1", "--command", "private$")
			var errs bytes.Buffer
			cmd.Env, cmd.Stderr = append(os.Environ(), asTool+"=1"), &errs
			testkit.StartProcess(t, cmd)
			for range 300 {
				if server.of(own.Process.Pid) >= 3 && (!c.sees || server.of(others) >= 2) {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			if mine, theirs := server.of(own.Process.Pid), server.of(others); mine < 3 || (theirs > 0) != c.sees {
				t.Errorf("%d profiles of the process of user 0, %d of the other user's\n%s", mine, theirs, errs.String())
			}
			if c.sees && strings.Count(errs.String(), "\n") != 1 {
				t.Errorf("it complains: %s", errs.String())
			}
		})
	}
}
