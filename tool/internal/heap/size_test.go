package heap

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

var requests = []uint64{0, 1, 4, 8, 9, 10, 16, 17, 24, 25, 100, 128, 129, 160, 161, 1000, 1024, 1025, 5000, 14336, 14337, 65535, 65536, 65537, 100000,
	131000, 200000, 1 << 20, 1<<20 + 1, 5000000}

// usable asks the real allocator behind preload.
func usable(t *testing.T, preload string) []uint64 {
	t.Helper()
	program := filepath.Join(t.TempDir(), "usable")
	if out, err := exec.Command("cc", "-fno-builtin", "-o", program, "testdata/usable.c").CombinedOutput(); err != nil {
		t.Skipf("cc: %v\n%s", err, out)
	}
	var args []string
	for _, n := range requests {
		args = append(args, strconv.FormatUint(n, 10))
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var sizes []uint64
	for line := range strings.Lines(string(out)) {
		n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func TestGranaryTakesWhatIsReported(t *testing.T) {
	l, err := inspect.OpenLibrary(testkit.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range usable(t, testkit.Library(t)) {
		if c := Of(l.Classes, requests[i], 16); c.Takes != got || c.Rounding != got-requests[i] || c.Each < float64(c.Takes) {
			t.Errorf("malloc(%d) takes %d, said is %+v", requests[i], got, c)
		}
	}
}

func TestRulesOfOthers(t *testing.T) {
	for i, got := range usable(t, "") {
		if want := glibc(requests[i]); got+8 != want && got+16 != want { // the header; two words in a separate mapping
			t.Errorf("glibc: malloc(%d) has %d usable bytes, said is %d with its header", requests[i], got, want)
		}
	}
	paths, _ := filepath.Glob("/usr/lib/*/libjemalloc.so.2") // the pattern is well formed
	if len(paths) == 0 {
		t.Skip("jemalloc is not installed")
	}
	for i, got := range usable(t, paths[0]) {
		if want := jemalloc(requests[i], 16); got != want {
			t.Errorf("jemalloc: malloc(%d) takes %d, said is %d", requests[i], got, want)
		}
	}
}

func callSize(args ...string) (string, string, int) {
	var out, errs bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &errs}, []cli.Command{Size}, append([]string{"size"}, args...))
	return out.String(), errs.String(), code
}

func TestTheCommand(t *testing.T) {
	lib := testkit.Library(t)
	out, errs, code := callSize("4", "10", "100", "1000", "64KiB", "100000", "1.5MiB", "--lib", lib)
	if code != 0 {
		t.Fatalf("code %d, said %q", code, errs)
	}
	testkit.Check(t, "testdata/sizes.golden", []byte(out))
	out, _, _ = callSize("100", "--align", "64", "--json", "--lib", lib)
	testkit.Check(t, "testdata/aligned.json", []byte(out))
	if out, errs, code := callSize("1TiB", "--json", "--lib", lib); code != 0 || !strings.Contains(out, "1099511627776") {
		t.Errorf("1TiB: code %d, said %q", code, errs)
	}
	for args, want := range map[string]string{"": "give one or more sizes in bytes", "x": `"x" is not a size`, "1 --align 24": "not a power of two"} {
		if _, errs, code := callSize(strings.Fields(args)...); code != cli.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: code %d, said %q", args, code, errs)
		}
	}
}
