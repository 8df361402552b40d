package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Library is the absolute path of the preload library: $GRANARY_LIB, or the one in build/lib. The test
// is skipped where there is none.
func Library(t testing.TB) string {
	t.Helper()
	path := os.Getenv("GRANARY_LIB")
	if path == "" {
		path = filepath.Join(root(t), "build", "lib", "libgranary.so")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("the library is not built: run make")
	}
	return path
}

// Recorder is the absolute path of the recorder in build/lib. The test is skipped where there is none.
func Recorder(t testing.TB) string {
	t.Helper()
	path := filepath.Join(root(t), "build", "lib", "libgranary-record.so")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the recorder is not built: run make")
	}
	return path
}

// BenchProgram is the absolute path of a benchmark program in build/bench. The test is skipped where it is not built.
func BenchProgram(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "build", "bench", name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("the benchmark programs are not built: run make bench")
	}
	return path
}

// root is the folder of the project: go test runs in the folder of the package that it tests.
func root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
	}
	t.Fatal("no go.mod above the test")
	return ""
}
