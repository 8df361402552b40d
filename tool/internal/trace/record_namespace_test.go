package trace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

var unshare = []string{"unshare", "--pid", "--fork", "--mount-proc"}

func needNamespaces(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no PID namespace can be made here: %v: %s", err, out)
	}
}

// The program is process 1 of its own namespace, and its packer sees when it ends.
func TestThePackerSeesProcessesOfOtherNamespaces(t *testing.T) {
	needNamespaces(t)
	program, out := testkit.Compile(t, lively, "-O1", "-pthread"), filepath.Join(t.TempDir(), "lively.gtr")
	cmd := exec.Command(unshare[0], append(unshare[1:], "env", "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+out, "GRANARY_RECORD_FOLLOW=1", program)...)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := openPacker(out)
	for begin := time.Now(); err != nil && time.Since(begin) < 20*time.Second; p, err = openPacker(out) { // until the recorder has made its file
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if h := p.header(); h.PID != 1 || p.writer <= 1 {
		t.Errorf("process %d is %d here", h.PID, p.writer)
	}
	for begin, swept := time.Now(), 0; swept < 20 && time.Since(begin) < 20*time.Second; {
		if swept += sweep(t, p); p.isOver() || atomic.LoadUint32(&p.header().Packer) == 0 {
			t.Fatal("the packer does not see its process")
		}
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !p.isOver() {
		t.Error("the process has ended")
	}
	p.close()
	if _, err := openPacker(out); err == nil {
		t.Error("a recording without a process is packed")
	}
	checkLively(t, out)
}

// Two namespaces both have a process 1: none replaces the other's trace.
func TestNamesakesOfOtherNamespacesAreKept(t *testing.T) {
	needNamespaces(t)
	program := testkit.Compile(t, lively, "-O1", "-pthread")
	script := filepath.Join(t.TempDir(), "both.sh")
	each := strings.Join(append(unshare, program), " ") + " </dev/null\n"
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+each+each), 0o700); err != nil {
		t.Fatal(err)
	}
	r := recordTrace(t, nil, "--follow", script)
	if r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.said)
	}
	checkLively(t, r.out+".1")
	checkLively(t, r.out+".1.2")
}

// A process that ended has left a trace at the path, by the same number in a namespace of the same inode: both are used again.
func TestAnEndedNamesakeIsKept(t *testing.T) {
	program := testkit.Compile(t, lively, "-O1", "-pthread")
	forges := testkit.Compile(t, `
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void* volatile keep;
int main(int argc, char** argv) {
  char path[4096];
  uint64_t start;
  keep = malloc(100);
  snprintf(path, sizeof path, "%s.%d", getenv("GRANARY_RECORD"), getpid());
  int file = open(path, O_RDWR);
  if (pread(file, &start, 8, 2184) != 8 || start == 0) return 2;
  ++start;
  if (pwrite(file, &start, 8, 2184) != 8) return 3;
  execv(argv[1], argv + 1);
  return 4;
}`)
	r := recordTrace(t, nil, "--follow", "/bin/sh", "-c", forges+" "+program+" </dev/null; exit $?")
	if r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.said)
	}
	second, err := filepath.Glob(r.out + ".*.2")
	if err != nil || len(second) != 1 {
		t.Fatalf("%v, %v", second, err)
	}
	checkLively(t, second[0])
	if s := summary(t, strings.TrimSuffix(second[0], ".2")); ofSize(s, 100).Objects != 1 {
		t.Errorf("the first trace: %+v", s)
	}
}
