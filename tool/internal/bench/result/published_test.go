package result

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublishedResultsHoldEveryValueOfEveryRound(t *testing.T) {
	dir := t.TempDir()
	raw := example(3)
	raw.Observations = raw.Observations[1:] // glibc has no throughput in the first round
	raw.Failures = []Failure{{Allocator: "glibc", Reason: "it was slow"}}
	if err := Publish(dir, []*Results{raw}, Suite{Size: "quick"}); err != nil {
		t.Fatal(err)
	}
	all, err := ReadAll(dir)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	got := all[0]
	if got.Scenario != raw.Scenario || got.Rounds != 3 || !got.Started.Equal(raw.Started) || len(got.Rows) != len(raw.Rows) || len(got.Failures) != 1 ||
		len(got.Notes) != 1 || len(got.Allocators) != 2 {
		t.Errorf("%+v", got)
	}
	for i, row := range raw.Rows {
		if got.Rows[i] != row {
			t.Errorf("row %+v, not %+v", got.Rows[i], row)
		}
		for _, c := range raw.Allocators {
			if a, b := got.Values(c.Name, row.Key()), raw.Values(c.Name, row.Key()); !maps.Equal(a, b) {
				t.Errorf("%s under %s: %v, not %v", row.Metric, c.Name, a, b)
			}
		}
	}
	if suite, err := ReadSuite(dir); err != nil || suite.Size != "quick" {
		t.Errorf("%+v, %v", suite, err)
	}
}

func TestADamagedPublishedSetIsRefused(t *testing.T) {
	for message, change := range map[string][3]string{
		"does not begin with the columns phase": {"example.csv", "phase,", "part,"},
		`has a column "gl"`:                     {"example.csv", "glibc", "gl"},
		`"1e6x" is no number`:                   {"example.csv", "1e+06", "1e6x"},
		`has the schema "granary-results/9"`:    {setFile, setSchema, "granary-results/9"},
		"holds no published results":            {setFile, "{", "["},
		"no such file":                          {setFile, `"name": "example"`, `"name": "other"`},
	} {
		dir := t.TempDir()
		if err := Publish(dir, []*Results{example(2)}, Suite{}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, change[0])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), change[1], change[2], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadAll(dir); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", message, err)
		}
	}
	two := example(1)
	two.Allocators[1].SHA256 = "3"
	if err := Publish(t.TempDir(), []*Results{example(1), two}, Suite{}); err == nil || !strings.Contains(err.Error(), "two builds of granary") {
		t.Errorf("two builds: %v", err)
	}
}
