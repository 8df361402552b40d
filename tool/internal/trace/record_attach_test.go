package trace

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
)

// A program that makes calls of one size all the time.
const forever = `
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  void* old = malloc(7301);
  puts("ready"); fflush(stdout);
  for (int i = 0; i < 6000; ++i) {
    free(malloc(7311));
    if (i == 3000) free(old);
    usleep(1000);
  }
  return 0;
}`

// attached is one `granary record PID`.
func attached(t *testing.T, pid int, args ...string) (string, error) {
	t.Helper()
	flags := pflag.NewFlagSet("record", pflag.ContinueOnError)
	act := setupRecord(flags)
	if err := flags.Parse(append(args, strconv.Itoa(pid))); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &said, Stderr: &said, Environ: os.Environ()}, flags.Args())
	return said.String(), err
}

func TestARunningProcessIsRecorded(t *testing.T) {
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	cmd := exec.Command(testkit.Compile(t, forever, "-fno-builtin", "-w"))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+raw, "GRANARY_RECORD_WAIT=1")
	testkit.StartProcess(t, cmd)
	testkit.Await(t, cmd.Process.Pid, "S")
	if _, err := os.Stat(raw); err == nil {
		t.Fatal("it recorded before it was switched on")
	}
	for _, name := range []string{"first", "second"} {
		out := filepath.Join(dir, name)
		begin := time.Now()
		said, err := attached(t, cmd.Process.Pid, "--seconds", "0.4", "-o", out)
		if err != nil || !strings.Contains(said, "recorded ") {
			t.Fatalf("%v: %s", err, said)
		}
		s := summary(t, out)
		if g := ofSize(s, 7311); g.Objects == 0 || g.AtEnd > 1 {
			t.Errorf("%s: %+v", name, g)
		}
		// A recording ends when it is switched off, not with the last call that moved its clock.
		if end := s.Header.Started.Add(s.Header.Length); end.Sub(begin) < 395*time.Millisecond {
			t.Errorf("%s: a recording of %v that ended %v after the command began", name, s.Header.Length, end.Sub(begin))
		}
	}
	if _, err := os.Stat(raw); err == nil {
		t.Error("it recorded after it was switched off")
	}
	if err := os.WriteFile(raw, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := attached(t, cmd.Process.Pid, "--seconds", "0.1"); err == nil || !strings.Contains(err.Error(), "move it first") {
		t.Errorf("over another file: %v", err)
	}
	if _, err := attached(t, 1<<22); err == nil || !strings.Contains(err.Error(), "no process") {
		t.Errorf("a process that does not exist: %v", err)
	}
	if _, err := attached(t, cmd.Process.Pid, "--sample", "10"); err == nil || !strings.Contains(err.Error(), "belong to its start") {
		t.Errorf("--sample: %v", err)
	}
}

// As redis-server does with its title.
const titled = `
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char** environ;
int main(void) {
  for (char** row = environ; *row; ++row) memset(*row, 0, strlen(*row));
  for (int i = 0; i < 6000; ++i) {
    free(malloc(7311));
    usleep(1000);
  }
  return 0;
}`

func TestAProgramThatOverwritesItsEnvironmentIsSwitchedOn(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(testkit.Compile(t, titled, "-fno-builtin", "-w"))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+filepath.Join(dir, "raw"), "GRANARY_RECORD_WAIT=1")
	testkit.StartProcess(t, cmd)
	testkit.Await(t, cmd.Process.Pid, "S")
	out := filepath.Join(dir, "out")
	if said, err := attached(t, cmd.Process.Pid, "--seconds", "0.4", "-o", out); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if g := ofSize(summary(t, out), 7311); g.Objects == 0 {
		t.Errorf("%+v", g)
	}
}
