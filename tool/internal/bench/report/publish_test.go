package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPublishedSetShowsTheSameTableAndLosses(t *testing.T) {
	dir := project(t, measuredSet(5, 1, 1.3))
	layout := strings.NewReplacer("plot =", "#", "goal =", "#").Replace(layout)
	rows := filepath.Join(dir, "rows.toml")
	if err := os.WriteFile(rows, []byte(layout), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "published")
	if out, err := execute(t, Publish, filepath.Join(dir, "results/today"), to, "--layout", rows); err != nil || !strings.Contains(out, "README.md") {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(readFile(t, filepath.Join(to, "README.md")))
	for _, wanted := range []string{
		"| filled: RSS, MiB | **100** | **101** | - | 131 |\n", "short sizes, 5 rounds", "### Where Granary loses", "| store | filled: RSS, MiB | 131 |", "[store](store.csv)",
	} {
		if !strings.Contains(text, wanted) {
			t.Errorf("no %q in\n%s", wanted, text)
		}
	}
	// The README of the project draws the same from the published set as from the raw results.
	draw := func(from string) string {
		if _, err := command(t, dir, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(readFile(t, filepath.Join(dir, "README.md"))), from, "FROM")
	}
	if raw, published := draw("results/today"), draw("published"); raw != published {
		t.Errorf("from raw results\n%s\nfrom the published set\n%s", raw, published)
	}
	// A value changed by hand no longer fits the table beside it.
	check := func() error {
		_, err := execute(t, Readme, "--check", "--file", filepath.Join(to, "README.md"), "--layout", rows)
		return err
	}
	if err := check(); err != nil {
		t.Errorf("freshly published: %v", err)
	}
	table := filepath.Join(to, "store.csv")
	edited := strings.ReplaceAll(string(readFile(t, table)), "1.3631e+08", "2.3631e+08")
	if err := os.WriteFile(table, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil {
		t.Errorf("a changed value passes\n%s", edited)
	}
}

func TestPublishSaysWhatIsMissing(t *testing.T) {
	dir := project(t, measuredSet(1, 1, 1))
	rows := filepath.Join(dir, "bench/suites/readme.toml")
	if _, err := execute(t, Publish, t.TempDir(), filepath.Join(dir, "to"), "--layout", rows); err == nil || !strings.Contains(err.Error(), "holds no results; name the folder") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := execute(t, Publish, dir, filepath.Join(dir, "to"), "--layout", filepath.Join(dir, "none.toml")); err == nil || !strings.Contains(err.Error(), "read the layout") {
		t.Errorf("no layout: %v", err)
	}
}
