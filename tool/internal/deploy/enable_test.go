package deploy

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// need is the path of a program, without which the test is skipped.
func need(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path := filepath.Join(dir, program); isFile(path) {
			return path
		}
	}
	t.Skip(program + " is not installed")
	return ""
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func redisUnit(t *testing.T) string {
	return fmt.Sprintf("%s --port %d --save '' --dir %s", need(t, "redis-server"), freePort(t), t.TempDir())
}

func nginxUnit(t *testing.T) string {
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	put(t, conf, fmt.Sprintf("daemon off;\nworker_processes 2;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp { access_log off; server { listen 127.0.0.1:%d; } }\n", dir, freePort(t)), 0o644)
	return need(t, "nginx") + " -p " + dir + " -c " + conf
}

func mariadbUnit(t *testing.T) string {
	server, install := need(t, "mariadbd"), need(t, "mariadb-install-db")
	dir := t.TempDir()
	user := ""
	if os.Getuid() == 0 {
		user = " --user=root"
	}
	out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("%s --no-defaults --auth-root-authentication-method=normal --skip-test-db --datadir=%s/data%s", install, dir, user)).CombinedOutput()
	if err != nil {
		t.Skipf("no database could be made: %v\n%s", err, out)
	}
	return fmt.Sprintf("%s --no-defaults --datadir=%s/data --socket=%s/socket --skip-networking%s", server, dir, dir, user)
}

// Real servers, from the allocator they have to Granary and back.
func TestServicesComeUpUnderGranaryAndGoBack(t *testing.T) {
	library := testkit.Library(t)
	for name, start := range map[string]func(*testing.T) string{"redis-server": redisUnit, "nginx": nginxUnit, "mariadb": mariadbUnit} {
		t.Run(name, func(t *testing.T) {
			id := name + suffix
			m, said, s := host(t, map[string]string{id: start(t)})
			ctx := context.Background()
			if err := s.do("restart", id); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time changes nothing
				p, err := planFor(t, m, id, library, "dirty_decay_ms:500")
				if err == nil {
					err = m.enable(ctx, p, true)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			h := m.status(ctx, id)
			if !h.Healthy || h.Live == 0 || h.RSS == 0 || h.UnderGranary != h.Processes || !strings.HasPrefix(h.Allocator, "granary ") {
				t.Errorf("status is %+v", h)
			}
			if name == "nginx" && h.Processes != 3 {
				t.Errorf("nginx has %d processes, expected a master and two workers", h.Processes)
			}
			if h.Reason != "" { // although redis and nginx write over their environment
				t.Errorf("status remarks %q", h.Reason)
			}
			if ids, err := m.enabled(); err != nil || fmt.Sprint(ids) != "["+id+"]" {
				t.Errorf("enabled are %v, %v", ids, err)
			}
			back(t, m, id)
			if calls := readFile(t, filepath.Join(s.dir, "calls")); strings.Count(calls, "daemon-reload") != 2 {
				t.Errorf("systemctl was called:\n%s", calls)
			}
			if !strings.Contains(said.String(), "nothing to change in") {
				t.Errorf("it said:\n%s", said)
			}
		})
	}
}

// back disables a unit and checks that nothing of Granary is left.
func back(t *testing.T, m machine, id string) {
	t.Helper()
	ctx := context.Background()
	u, err := m.manager.find(ctx, []string{id})
	if err == nil {
		err = m.disable(ctx, u, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if u, err = m.manager.find(ctx, []string{id}); err != nil {
		t.Fatal(err)
	}
	h := Health{PID: u.number("MainPID")}
	if examine(m.proc, &h, dropIn{}); h.granary() || h.Allocator == "" || u.environment("LD_PRELOAD") != "" {
		t.Errorf("after disable %+v, %v", h, u.properties["Environment"])
	}
	if _, err := os.Stat(filepath.Join(m.etc, id+".d")); !os.IsNotExist(err) {
		t.Errorf("the folder of drop-ins is still there: %v", err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Services that do not start, each for another reason; after each the unit is as it was.
func TestServicesThatDoNotComeUpAreTakenBack(t *testing.T) {
	library := testkit.Library(t)
	redis := redisUnit(t)
	for _, c := range []struct {
		name, start string
		running     bool   // before
		before      string // options of the drop-in that there was
		message     string
	}{
		{"dies at once", `/bin/sh -c 'if [ -n "$LD_PRELOAD" ]; then echo I do not like it; exit 3; fi; exec sleep 1000'`, true, "", "it runs again as before: it did not start: systemctl restart: Job for a.service failed: exit status 3\n    I do not like it"},
		{"dies later", `/bin/sh -c 'exec sleep 1000'`, true, "", "it runs again as before: it failed after its start"},
		{"was stopped", `/bin/sh -c 'if [ -n "$LD_PRELOAD" ]; then exit 3; fi; exec sleep 1000'`, false, "", "it is stopped again, as it was: it did not start"},
		{"was enabled otherwise", `/bin/sh -c 'case $GRANARY_CONF in *:7) exit 3; esac; exec sleep 1000'`, true, "dirty_decay_ms:6", "it runs again as before: it did not start"},
		{"throws the variable away", "/usr/bin/env -u LD_PRELOAD sleep 1000", true, "", "it runs again as before: it started without the drop-in's LD_PRELOAD"},
		{"and writes over the others", "/usr/bin/env -u LD_PRELOAD " + redis, true, "", "it runs again as before: Granary is not in it: it did not get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testTakenBack(t, library, c.start, c.running, c.before, c.message)
		})
	}
}

func testTakenBack(t *testing.T, library, start string, running bool, before, message string) {
	m, _, s := host(t, map[string]string{"a.service": start})
	m.patience = 10 * m.settle
	if strings.HasSuffix(message, "after its start") {
		put(t, s.path("a.service", "doomed"), "dirty_decay_ms:7", 0o644)
	}
	ctx := context.Background()
	path := filepath.Join(m.etc, "a.service.d", dropInName)
	if before != "" {
		p, err := planFor(t, m, "a.service", library, before)
		if err == nil {
			err = m.enable(ctx, p, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if running {
		if err := s.do("restart", "a.service"); err != nil {
			t.Fatal(err)
		}
	}
	p, err := planFor(t, m, "a.service", library, "dirty_decay_ms:7")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.enable(ctx, p, true); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("it said %v", err)
	}
	data, err := os.ReadFile(path)
	if before == "" && !os.IsNotExist(err) || before != "" && !strings.Contains(string(data), "dirty_decay_ms:6") {
		t.Errorf("the drop-in is %q, %v", data, err)
	}
	u, err := m.manager.find(ctx, []string{"a.service"})
	if err != nil || u.active() != running || strings.Contains(u.properties["Environment"], "dirty_decay_ms:7") {
		t.Errorf("the unit is %v, %v", u, err)
	}
}

// flapping is a service whose main process is another one each time.
type flapping struct{ pid int }

func (f *flapping) find(context.Context, []string) (unit, error) {
	f.pid++
	return unit{properties: map[string]string{"ActiveState": "active", "MainPID": fmt.Sprint(f.pid)}}, nil
}

func (*flapping) call(context.Context, ...string) error         { return nil }
func (*flapping) log(context.Context, string, time.Time) string { return "" }

func TestAServiceThatIsStartedAgainAndAgainIsNotUp(t *testing.T) {
	m := machine{manager: &flapping{}, settle: 200 * time.Millisecond, patience: 500 * time.Millisecond}
	_, err := m.watch(context.Background(), "a.service", func(h *Health) { h.Healthy = true })
	if err == nil || err.Error() != "it keeps being started anew" {
		t.Errorf("it said %v", err)
	}
}

// A drop-in that is read later overrides Granary's: enable finds it before it restarts anything.
func TestALaterDropInIsNamed(t *testing.T) {
	library := testkit.Library(t)
	m, _, s := host(t, map[string]string{"a.service": "/bin/sleep 1000"})
	later := filepath.Join(m.etc, "a.service.d", "override.conf")
	put(t, later, "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/other.so\n", 0o644)
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	p, err := planFor(t, m, "a.service", library, "")
	if err != nil {
		t.Fatal(err)
	}
	err = m.enable(context.Background(), p, true)
	if err == nil || !regexp.MustCompile(`nothing was changed: LD_PRELOAD of a.service is "/usr/lib/other.so" in spite of the drop-in: take it out of .*override.conf`).MatchString(err.Error()) {
		t.Errorf("it said %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(later)); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
}
