package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/creack/pty"
)

// mayFail are the commands that need more than every machine offers, systemd, rights, a good configuration, or names:
// with their exit codes.
var mayFail = map[string]int{"status": cli.CodeFailed, "doctor": cli.CodeFailed, "cold": cli.CodeFailed, "peers": cli.CodeUsage}

// inTerminal runs a command on a terminal of so many columns, and returns what the terminal received.
func inTerminal(t *testing.T, columns uint16, args ...string) string {
	t.Helper()
	screen, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudoterminal: %v", err)
	}
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 50, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	received := make(chan []byte)
	go func() {
		var out bytes.Buffer
		_, _ = io.Copy(&out, screen) // the terminal's end is an error
		received <- out.Bytes()
	}()
	env := cli.Env{Stdout: terminal, Stderr: terminal, Version: "1.2.3", Environ: os.Environ(), Exe: "../../../build/bin/granary"}
	code := cli.Main(context.Background(), env, commands(), args)
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	out := string(<-received)
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	if code != 0 && code != mayFail[args[0]] {
		t.Errorf("granary %s: code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// recorded is the trace of a small program.
func recorded(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.gtr")
	cmd := exec.Command("sort", "/etc/passwd")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// Each command's main output fits 80 columns, and uses more where there are more.
func TestOutputFitsTheTerminal(t *testing.T) {
	testkit.BenchProgram(t, "simulate")
	python := testkit.Python(t, `import time
held = [bytes(100 + i % 900) for i in range(200000)]
del held[::2]
print('ready', flush=True)
while True:
    more = [bytes(100 + i % 900) for i in range(20000)]
    time.sleep(0.05)`, "LD_PRELOAD="+testkit.Library(t))
	pid := strconv.Itoa(python.Pid)
	trace := recorded(t)
	for _, line := range []string{
		"ps", "ps --allocator granary", "why PID", "heap PID", "heap PID --pages",
		"stats PID --classes --caches --locks --options", "ctl PID purge", "doctor", "doctor PID", "doctor sh",
		"size 100 64KiB 3MiB", "profile PID --seconds 1", "profile PID --seconds 1 --pins",
		"profile PID --seconds 1 --alloc", "leaks PID --for 3s", "cold PID --seconds 1", "calls PID --seconds 1", "ctl PID flush", "status", "peers list", "peers install",
		"model redis --keys 1M --value 100", "model memcached --keys 1M --value 100", "model container map --count 1M",
		"model mariadb --connections 100", "model rax --keys 1000 --key {hex:8}",
		"trace info TRACE", "trace top TRACE", "trace lifetimes TRACE", "trace threads TRACE", "trace bound TRACE", "trace diff TRACE TRACE",
		"simulate TRACE --set dirty_decay_ms=0,1000 --set background_thread=true,false --set huge_pages=never,always --nodes 2 --cpus 4",
	} {
		args := strings.Fields(strings.NewReplacer("PID", pid, "TRACE", trace).Replace(line))
		out := inTerminal(t, 80, args...)
		if long := testkit.LongerThan(80, out); len(long) > 0 || out == "" {
			t.Errorf("granary %s, at 80 columns:\n%s", line, strings.Join(long, "\n"))
		}
	}
	for _, line := range []string{"ps", "why PID", "stats PID --classes"} {
		args := strings.Fields(strings.ReplaceAll(line, "PID", pid))
		out := inTerminal(t, 120, args...)
		if len(testkit.LongerThan(80, out)) == 0 || len(testkit.LongerThan(120, out)) > 0 {
			t.Errorf("granary %s, at 120 columns:\n%s", line, out)
		}
	}
}

// A terminal that does not answer questions, as a serial console, would hold up every command.
func TestNoCommandAsksTheTerminal(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$") // all packages of the command are initialised
	cmd.Env = slices.DeleteFunc(append(os.Environ(), "TERM=xterm-256color"), func(v string) bool { return strings.HasPrefix(v, "CI=") })
	screen, err := pty.Start(cmd)
	if err != nil {
		t.Skipf("no pseudoterminal: %v", err)
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, screen) // the terminal's end is an error
	if err := errors.Join(cmd.Wait(), screen.Close()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "PASS") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("the terminal receives %q", out.String())
	}
}
