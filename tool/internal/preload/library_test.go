package preload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func putFile(t *testing.T, dir, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLibraryPrefersWhatIsNamed(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "lib", "other dir"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	built := putFile(t, root, "lib/libgranary.so", 0o644)
	named := putFile(t, root, "named.so", 0o644)
	spaced := putFile(t, root, "other dir/x.so", 0o644)
	exe := putFile(t, root, "bin/granary", 0o755)
	link := filepath.Join(root, "link")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, variable, exe, want, message string }{
		{"", "", exe, built, ""},
		{"", "", link, built, ""},
		{"", named, exe, named, ""},
		{named, built, exe, named, ""},
		{"", "/no/lib", exe, "", "GRANARY_LIB names /no/lib"},
		{spaced, "", exe, "", "move the library"},
	} {
		got, err := Library(c.flag, c.variable, c.exe)
		if got != c.want || (err != nil) != (c.message != "") || err != nil && !strings.Contains(err.Error(), c.message) {
			t.Errorf("Library(%q, %q) = %q, %v", c.flag, c.variable, got, err)
		}
	}
}
