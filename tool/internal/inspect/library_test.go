package inspect

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func TestALibraryDescribesItselfInItsFile(t *testing.T) {
	l, err := OpenLibrary(testkit.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	if l.Version == "" || len(l.Classes) < 50 || len(l.Options) < 4 || len(l.Metrics) < 20 {
		t.Errorf("version %q, %d classes, %d options, %d metrics", l.Version, len(l.Classes), len(l.Options), len(l.Metrics))
	}
	for i, c := range l.Classes {
		if i > 0 && (c.Smaller != l.Classes[i-1].Size || c.Size <= c.Smaller) {
			t.Errorf("class %d: %+v", i, c)
		}
	}
}

func TestFilesThatHoldNoLibrary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, "/nowhere", "/proc/self/exe"} {
		if _, err := OpenLibrary(path); !errors.Is(err, ErrNotGranary) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
