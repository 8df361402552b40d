package leaks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// leaky has thirty times as much churn as it leaks; called with a word, it leaks a known amount and ends.
const leaky = `#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define SITE __attribute__((noinline, noclone))
static void* volatile ring[1 << 12];
static void* volatile leaked;
SITE static void* churn_site(unsigned i) { void* p = malloc(64 + i % 2000); return memset(p, 1, 64); }
SITE static void* leak_site(void) { void* p = malloc(200); return memset(p, 1, 200); }
int main(int argc, char** argv) {
  for (unsigned i = 0; argc < 2 || i < 600000; ++i) {
    const unsigned k = i * 2654435761u >> 20;
    free(ring[k]);
    ring[k] = churn_site(i);
    if (i % 6 == 0) leaked = leak_site();
    if (argc < 2 && i % 100 == 0) usleep(2000);
  }
  for (unsigned k = 0; k < 1 << 12; ++k) free(ring[k]);
  return argc < 2 ? 0 : atoi(argv[1]);
}
`

func program(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "leaky.c"), filepath.Join(dir, "leaky")
	if err := os.WriteFile(source, []byte(leaky), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-O2", "-g", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	return path
}

func call(t *testing.T, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := cli.Env{Stdout: &out, Stderr: &errs, Environ: append(os.Environ(), "GRANARY_LIB="+testkit.Library(t))}
	code := cli.Main(t.Context(), env, []cli.Command{Command}, append([]string{"leaks"}, args...))
	return out.String(), errs.String(), code
}

func TestAProcessThatEndsWhileItIsWatchedIsShown(t *testing.T) {
	cmd := exec.Command(program(t))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	testkit.StartProcess(t, cmd)
	for range 200 {
		if target, err := inspect.Open(cmd.Process.Pid); err == nil {
			target.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.AfterFunc(4*time.Second, func() { _ = cmd.Process.Kill() })
	out, errs, code := call(t, fmt.Sprint(cmd.Process.Pid), "--for", "40s", "--rate", "4KiB")
	if code != 0 || !strings.Contains(out, "The process ended while it was watched") || !strings.Contains(out, "leak_site") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

func TestLeakOfARealProgramIsFirst(t *testing.T) {
	cmd := exec.Command(program(t))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	testkit.StartProcess(t, cmd)
	for range 200 {
		if target, err := inspect.Open(cmd.Process.Pid); err == nil {
			target.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	out, errs, code := call(t, fmt.Sprint(cmd.Process.Pid), "--for", "6s", "--rate", "1KiB", "--json")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Stacks) == 0 || !strings.Contains(r.Stacks[0].Stack[0], "leak_site") || r.Stacks[0].AtLeast <= 0 {
		t.Errorf("the leak is not first: %s", out)
	}
}

// A command keeps its exit code and output; objects that it did not free are listed by stack.
func TestWhatACommandLeavesBehind(t *testing.T) {
	out, errs, code := call(t, "--rate", "16KiB", "--", program(t), "3")
	if code != 3 || out != "" {
		t.Errorf("code %d, printed %q", code, out)
	}
	lines := strings.Split(errs, "\n")
	if len(lines) < 3 || !strings.Contains(lines[0], "had not freed about") || !strings.Contains(lines[2], "leak_site < main") {
		t.Errorf("said:\n%s", errs)
	}
	if _, errs, code := call(t, "--", "/nowhere/at/all"); code == 0 || !strings.Contains(errs, "/nowhere/at/all") {
		t.Errorf("no such program: code %d, %s", code, errs)
	}
}
