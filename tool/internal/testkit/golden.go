// Package testkit holds what tests share: golden files, one or many processes to test against, and the paths of
// the built library.
package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check fails the test when got differs from the file at path.
func Check(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run this test with -update to write it", err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs from what was made (if that is right, run this test with -update):\n%s", path, got)
	}
}
