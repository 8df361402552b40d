package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
)

func example(rounds int) *Results {
	r := &Results{
		Schema: Schema, Scenario: "example", Version: "1", Rounds: rounds, Started: time.Unix(1e9, 0), Settings: map[string]any{"threads": "2,4"},
		Rows:       []Row{{Phase: "a, b", Metric: "throughput", Unit: "1/s", Better: Higher}, {Phase: "a, b", Metric: "RSS", Unit: "bytes", Better: Lower}},
		Allocators: []allocators.Allocator{{Name: "glibc", SHA256: "1"}, {Name: "granary", SHA256: "2"}},
		Sessions:   []Session{{Started: time.Unix(1e9, 0)}},
		Notes:      []string{"<b>not bold</b>"},
	}
	for round := range rounds {
		for i, c := range r.Allocators {
			var s Sample
			s.Set("a, b", "throughput", float64(100+10*i+round))
			s.Set("a, b", "RSS", float64(1e6+1000*i))
			s.Ran(Run{Seconds: 1, OthersCPU: 0.25})
			r.Add(c.Name, round, s)
		}
	}
	return r
}

func TestARerunAddsRounds(t *testing.T) {
	dir := t.TempDir()
	fresh := example(0)
	if got, err := Extend(dir, fresh); err != nil || got != fresh {
		t.Fatalf("an empty folder: %+v, %v", got, err)
	}
	if err := example(3).WriteJSON(filepath.Join(dir, File)); err != nil {
		t.Fatal(err)
	}
	fresh.Allocators = append(fresh.Allocators, allocators.Allocator{Name: "jemalloc"})
	got, err := Extend(dir, fresh)
	if err != nil || got.Rounds != 3 || len(got.Observations) != 12 || len(got.Allocators) != 3 || len(got.Sessions) != 2 || len(got.Notes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatDoesNotBelongTogetherIsRefused(t *testing.T) {
	for message, change := range map[string]func(r *Results){
		"holds results of example":                     func(r *Results) { r.Scenario = "other" },
		"with threads 2,4, not 8":                      func(r *Results) { r.Settings = map[string]any{"threads": "8"} },
		"another build or setting of granary":          func(r *Results) { r.Allocators[1].SHA256 = "3" },
		"another build or setting of glibc; give anot": func(r *Results) { r.Allocators[0].Env = []string{"A=1"} },
	} {
		dir := t.TempDir()
		if err := example(1).WriteJSON(filepath.Join(dir, File)); err != nil {
			t.Fatal(err)
		}
		fresh := example(0)
		change(fresh)
		if _, err := Extend(dir, fresh); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", message, err)
		}
	}
	other := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(other, []byte(`{"schema":"else/9"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(other); err == nil || !strings.Contains(err.Error(), `has the schema "else/9"; this version reads granary-bench/3`) {
		t.Errorf("err = %v", err)
	}
}
