package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Compile builds a C program with cc and these further arguments, and returns its path. The test is skipped where
// there is no compiler.
func Compile(t testing.TB, source string, args ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "program.c"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, append([]string{"-O1", "-fno-builtin-malloc", "-o", program, file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
