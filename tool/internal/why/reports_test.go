package why

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// A free of an address that malloc did not return ends a program; its core file has the report.
func TestACoreFileHasTheReportOfMisuse(t *testing.T) {
	if pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || string(pattern) != "core\n" {
		t.Skip("the kernel writes no core files here (kernel.core_pattern is not \"core\")")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "ulimit -c unlimited; exec python3 -c 'import ctypes\nc = ctypes.CDLL(None)\nc.free(ctypes.c_void_p(0x1234560))'")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "PYTHONMALLOC=malloc")
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "granary: free of an address") {
		t.Fatalf("the program ended with %v and said %s", err, said)
	}
	cores, err := filepath.Glob(filepath.Join(dir, "core*"))
	if err != nil || len(cores) != 1 {
		t.Skip("no core file was written")
	}
	w, err := explainCore(cores[0])
	if err != nil {
		t.Fatal(err)
	}
	if w.Reports == "" || !strings.Contains(string(said), w.Reports) {
		t.Errorf("the core file has %q, the program said %q", w.Reports, said)
	}
	var out bytes.Buffer
	w.write(&out, 80)
	if !strings.HasPrefix(strings.SplitAfter(out.String(), "\n\n")[1], "What Granary had written to stderr:") {
		t.Errorf("%s", out.String())
	}
}
