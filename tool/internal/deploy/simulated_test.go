package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// The tests run real servers under a small systemd: this test program under the names `systemctl` and
// `journalctl`. It reads unit files and drop-ins from a folder, but only when told to (daemon-reload),
// starts what ExecStart= says with the environment that they set, and keeps each service's output.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SIMULATED_SYSTEMD"); dir != "" {
		os.Exit(simulate(simulated{dir}, filepath.Base(os.Args[1]), os.Args[2:]))
	}
	os.Exit(m.Run())
}

type simulated struct{ dir string }

func simulate(s simulated, program string, words []string) int {
	if program == "guard" {
		return s.guard()
	}
	if program == "journalctl" {
		id, _ := strings.CutPrefix(words[0], "--unit=")
		data, err := os.ReadFile(s.path(id, "log"))
		if err != nil {
			return 1
		}
		os.Stdout.Write(data)
		return 0
	}
	if err := s.do(words[0], words[len(words)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// guard ends the remaining processes of the services when the test, which has the other end of its input, has ended,
// also if that was killed.
func (s simulated) guard() int {
	_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
	states, _ := filepath.Glob(filepath.Join(s.dir, "state/*.pid"))
	for _, path := range states {
		if pid := s.pid(strings.TrimSuffix(filepath.Base(path), ".pid")); pid != 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // a separate session; it may have ended already
		}
	}
	return 0
}

// watch starts a guard for as long as the test runs.
func (s simulated) watch(t *testing.T) {
	t.Helper()
	c := exec.Command(os.Args[0], "guard")
	c.Env = append(os.Environ(), "SIMULATED_SYSTEMD="+s.dir)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal that kills the test must not reach it
	held, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		held.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func (s simulated) path(id, what string) string { return filepath.Join(s.dir, "state", id+"."+what) }

func (s simulated) do(verb, id string) error {
	calls, err := os.OpenFile(filepath.Join(s.dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer calls.Close()
	if verb != "show" && verb != "list-unit-files" {
		fmt.Fprintln(calls, strings.TrimSpace(verb+" "+strings.TrimPrefix(id, verb)))
	}
	switch verb {
	case "daemon-reload":
		return s.load()
	case "list-unit-files":
		paths, _ := filepath.Glob(filepath.Join(s.dir, "lib/systemd/system", id))
		for _, p := range paths {
			fmt.Println(filepath.Base(p), "enabled enabled")
		}
	case "show":
		defer s.kill(id)
		return s.show(id)
	case "reset-failed":
		return os.RemoveAll(s.path(id, "failed"))
	case "stop":
		return s.stop(id)
	case "restart":
		if err := s.stop(id); err != nil {
			return err
		}
		return s.start(id)
	}
	return nil
}

// load stores the present content of the files.
func (s simulated) load() error {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "lib/systemd/system/*.service"))
	for _, p := range paths {
		u, err := image{s.dir}.read(p)
		if err != nil {
			return err
		}
		paths := split(u.properties["DropInPaths"])
		for i := range paths {
			paths[i] = s.dir + paths[i]
		}
		u.properties["DropInPaths"] = strings.Join(paths, " ")
		data, err := json.Marshal(u.properties)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.path(u.id, "json"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s simulated) properties(id string) map[string]string {
	out := map[string]string{"LoadState": "not-found"}
	if data, err := os.ReadFile(s.path(id, "json")); err == nil {
		_ = json.Unmarshal(data, &out) // written by load
	}
	return out
}

func (s simulated) pid(id string) int {
	data, _ := os.ReadFile(s.path(id, "pid"))
	pid, _ := strconv.Atoi(string(data))
	if stat, err := procfs.Live().Stat(pid); pid == 0 || err != nil || stat.State == "Z" {
		return 0
	}
	return pid
}

func (s simulated) show(id string) error {
	p := s.properties(id)
	p["Id"], p["MainPID"], p["ActiveState"], p["Result"] = id, strconv.Itoa(s.pid(id)), "inactive", "success"
	if s.pid(id) != 0 {
		p["ActiveState"] = "active"
	} else if _, err := os.Stat(s.path(id, "failed")); err == nil {
		p["ActiveState"], p["Result"] = "failed", "exit-code"
	} else if _, err := os.Stat(s.path(id, "pid")); err == nil {
		p["ActiveState"], p["Result"] = "failed", "exit-code"
	}
	for _, name := range wanted {
		fmt.Printf("%s=%s\n", name, p[name])
	}
	return nil
}

// kill ends a service that is told to die after its start, once it has been seen running: the file `doomed` holds a text
// of its environment. A service that died at a time of its own would sometimes do so before or after it is looked at.
func (s simulated) kill(id string) {
	text, err := os.ReadFile(s.path(id, "doomed"))
	if pid := s.pid(id); err == nil && pid != 0 && strings.Contains(s.properties(id)["Environment"], string(text)) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending
	}
}

func (s simulated) stop(id string) error {
	if pid := s.pid(id); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return err
		}
		for range 300 {
			if s.pid(id) == 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if err := os.Remove(s.path(id, "pid")); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (s simulated) start(id string) error {
	p := s.properties(id)
	log, err := os.Create(s.path(id, "log"))
	if err != nil {
		return err
	}
	words := split(p["ExecStart"])
	c := exec.Command(words[0], words[1:]...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH")}, split(p["Environment"])...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			if err == nil {
				return nil
			}
			return errors.Join(fmt.Errorf("Job for %s failed: %w", id, err), os.WriteFile(s.path(id, "failed"), nil, 0o644))
		case <-time.After(20 * time.Millisecond):
			if becoming(c.Process.Pid) {
				continue
			}
			return os.WriteFile(s.path(id, "pid"), []byte(strconv.Itoa(c.Process.Pid)), 0o644)
		}
	}
}

// becoming says that the process is still the shell or env that replaces itself by the service, or ends.
func becoming(pid int) bool {
	stat, err := procfs.Live().Stat(pid)
	return err != nil || stat.State == "Z" || stat.Command == "sh" || stat.Command == "env"
}

// host is a machine under the small systemd, with the units that are given as their ExecStart=.
func host(t *testing.T, units map[string]string) (machine, *strings.Builder, simulated) {
	t.Helper()
	s := simulated{t.TempDir()}
	for _, dir := range []string{"bin", "state", "etc/systemd/system", "lib/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"systemctl", "journalctl"} {
		put(t, filepath.Join(s.dir, "bin", name), fmt.Sprintf("#!/bin/sh\nSIMULATED_SYSTEMD=%s exec %s %s \"$@\"\n", s.dir, os.Args[0], name), 0o755)
	}
	t.Setenv("PATH", filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	s.watch(t)
	for id, start := range units {
		put(t, filepath.Join(s.dir, "lib/systemd/system", id), "[Unit]\nDescription=a test\n[Service]\nExecStart="+start+"\n", 0o644)
		t.Cleanup(func() {
			if err := s.stop(id); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	m := machine{root: "/", etc: filepath.Join(s.dir, "etc/systemd/system"), live: true, proc: procfs.Live(), manager: systemd{},
		settle: 300 * time.Millisecond, patience: 10 * time.Second}
	m.say = func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	return m, &said, s
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// planFor is the plan of enabling a unit with a library.
func planFor(t *testing.T, m machine, id, library, options string) (plan, error) {
	t.Helper()
	u, err := m.manager.find(context.Background(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	return makePlan(attempt{root: m.root, etc: m.etc, live: m.live, proc: m.proc, unit: u, library: library}, strings.TrimSuffix(id, suffix), "1.2.3", options)
}

// A run that is killed leaves no server behind: this test is one, and kills itself.
func TestNothingIsLeftByATestThatIsKilled(t *testing.T) {
	if dir := os.Getenv("KILLED_TEST"); dir != "" {
		_, _, s := host(t, map[string]string{"nap.service": "/bin/sleep 600"})
		if err := s.do("restart", "nap.service"); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "pid"), strconv.Itoa(s.pid("nap.service")), 0o644)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // does not return
	}
	dir := t.TempDir()
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), "KILLED_TEST="+dir, "TMPDIR="+dir)
	if err := c.Run(); err == nil {
		t.Fatal("the test in the test was not killed")
	}
	pid, err := strconv.Atoi(readFile(t, filepath.Join(dir, "pid")))
	if err != nil || pid == 0 {
		t.Fatalf("its service is %d: %v", pid, err)
	}
	for range 200 {
		if stat, err := procfs.Live().Stat(pid); err != nil || stat.State == "Z" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}
