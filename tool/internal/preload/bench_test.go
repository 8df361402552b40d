package preload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreFoundInASourceTreeAndInstalled(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{
		"source/bench/suites/micro.toml", "source/build/bench/pair", "source/build/bin/granary",
		"usr/share/granary/suites/micro.toml", "usr/libexec/granary/bench/pair", "usr/bin/granary", "else/granary", "source/docs/page",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(root, "else"))
	for exe, want := range map[string][3]string{
		"source/build/bin/granary": {"source/bench/suites/micro.toml", "source/build/bench", "source/build/bench/pair"},
		"usr/bin/granary":          {"usr/share/granary/suites/micro.toml", "usr/libexec/granary/bench", "usr/libexec/granary/bench/pair"},
	} {
		exe = filepath.Join(root, exe)
		program, err := BenchProgram(exe, "pair")
		if got := [3]string{Suite(exe, "micro.toml"), Programs(exe), program}; err != nil || got[0] != filepath.Join(root, want[0]) ||
			got[1] != filepath.Join(root, want[1]) || got[2] != filepath.Join(root, want[2]) {
			t.Errorf("of %s: %v, %v", exe, got, err)
		}
	}
	alone := filepath.Join(root, "else", "granary")
	if _, err := BenchProgram(alone, "pair"); err == nil || !strings.Contains(err.Error(), "pair is not built") || Suite(alone, "micro.toml") != "bench/suites/micro.toml" {
		t.Errorf("without a source tree: %v, %s", err, Suite(alone, "micro.toml"))
	}
	t.Chdir(filepath.Join(root, "source", "docs"))
	if path, err := BenchProgram(alone, "pair"); err != nil || path != filepath.Join(root, "source/build/bench/pair") {
		t.Errorf("from within the source tree: %s, %v", path, err)
	}
}
