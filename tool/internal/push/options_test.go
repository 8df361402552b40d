package push

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHeadersFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(path, []byte("# a token\nauthorization: Bearer a:b\n\nX-Scope-OrgID: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := (&Options{headers: path}).Header()
	if err != nil || h.Get("Authorization") != "Bearer a:b" || h.Get("X-Scope-OrgID") != "1" {
		t.Errorf("%v, %v", h, err)
	}
}

func TestWrongHeadersAndLabelsAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(path, []byte("a token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Options{headers: path}).Header(); err == nil || !strings.Contains(err.Error(), "write Name: value") {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"x", "1a=b", "a b=c"} {
		if _, err := (&Options{labels: []string{text}}).Labels(); err == nil || !strings.Contains(err.Error(), "name=value") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
