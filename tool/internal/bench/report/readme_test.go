package report

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

const root = "../../../.."

func TestTheProjectsREADMEShowsTheResultsThatItNames(t *testing.T) {
	shows(t, root+"/README.md", root+"/bench/suites/readme.toml")
}

func TestEveryPublishedSetShowsItsOwnValues(t *testing.T) {
	files, err := filepath.Glob(root + "/bench/results/*/README.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no published results: %v", err)
	}
	for _, file := range files {
		shows(t, file, root+"/bench/suites/results.toml")
	}
}

// shows fails where a README does not show the results that it names.
func shows(t *testing.T, file, rows string) {
	t.Helper()
	layout, err := ReadLayout(rows)
	if err != nil {
		t.Fatal(err)
	}
	drawing, err := Draw(file, "", layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range drawing.Differing(file) {
		t.Errorf("%s does not show what the results hold; run `granary bench readme`", filepath.Clean(file))
	}
}

// results are of three rounds; slow and large are factors of Granary's time and RSS.
func measuredSet(rounds int, slow, large float64) *result.Results {
	r := &result.Results{
		Schema: result.Schema, Scenario: "store", Rounds: rounds, Started: time.Unix(1e9, 0),
		Rows: []result.Row{{Phase: "write, 2 threads", Metric: "throughput", Unit: "1/s", Better: result.Higher}, {Phase: "filled", Metric: "RSS", Unit: "bytes", Better: result.Lower},
			{Phase: "one", Metric: "peak RSS", Unit: "bytes", Better: result.Lower}, {Phase: "two", Metric: "peak RSS", Unit: "bytes", Better: result.Lower}},
		Allocators: []allocator{{Name: "glibc"}, {Name: "jemalloc"}, {Name: "new-jemalloc", Version: "5.3.1"}, {Name: "granary"}},
	}
	for round := range rounds {
		for i, c := range r.Allocators {
			var s result.Sample
			wobble := 1 + 0.004*float64((round*5+i*3)%4)
			granaryCost := func(f float64) float64 {
				if c.Name == "granary" {
					return f
				}
				return 1
			}
			s.Set("write, 2 threads", "throughput", 50e3/granaryCost(slow)*wobble)
			s.Set("filled", "RSS", 100*(1<<20)*granaryCost(large)*wobble)
			s.Set("one", "peak RSS", (10<<20)*granaryCost(large)*wobble)
			s.Set("two", "peak RSS", (40<<20)*wobble)
			r.Add(c.Name, round, s)
		}
	}
	return r
}

const layout = `
plot = "docs/images/measured.svg"
goal = [{name = "rss", title = "memory"}]
column = [{title = "glibc", from = ["glibc"]}, {title = "jemalloc", from = ["new-jemalloc", "jemalloc"]}, {title = "mimalloc", from = ["mimalloc"]},
	{title = "Granary", from = ["granary"]}]
[[row]]
title = "peak RSS of $PROGRAMS programs to the best of $ALLOCATORS"
scenario = "store"
metric = "peak RSS"
mean = true
[[row]]
title = "writes"
scenario = "store"
phase = "^write"
metric = "throughput"
[[row]]
title = "filled: RSS"
scenario = "store"
phase = "^filled$"
metric = "RSS"
[[row]]
title = "not measured"
scenario = "other"
phase = "x"
metric = "RSS"
`

const before = "# Title\n\n<!-- measured: begin -->\nwas here\n<!-- measured: end -->\n\nafter\n"

// command runs `granary bench readme` in a folder with a README.
func command(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	return execute(t, Readme, append(args, "--file", filepath.Join(dir, "README.md"))...)
}

func execute(t *testing.T, row cli.Command, args ...string) (string, error) {
	t.Helper()
	fs := pflag.NewFlagSet(row.Name, pflag.ContinueOnError)
	act := row.Setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out}, fs.Args())
	return out.String(), err
}

// project is a folder with a README, a layout and results.
func project(t *testing.T, r *result.Results) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "bench/suites"), 0o755), os.WriteFile(filepath.Join(dir, "README.md"), []byte(before), 0o644),
		os.WriteFile(filepath.Join(dir, "bench/suites/readme.toml"), []byte(layout), 0o644), r.WriteJSON(filepath.Join(dir, "results/today/store", result.File)),
		result.Suite{Size: "quick"}.Write(filepath.Join(dir, "results/today")))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheBlockIsDrawnFromResultsAndCheckedAgainstThem(t *testing.T) {
	dir := project(t, measuredSet(5, 1, 1.3))
	if out, err := command(t, dir, filepath.Join(dir, "results/today")); err != nil || !strings.Contains(out, "docs/images/measured.svg") {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{
		"# Title\n\n<!-- measured: begin results/today -->\n\n| | glibc | jemalloc | mimalloc | Granary |\n",
		"| peak RSS of 2 programs to the best of 4, ratio | **1.00** | **1.00** | - | 1.14 |\n",
		"| writes, k/s (higher is better); no difference shown | 50.2 | 50.4 | - | 50.2 |\n",
		"| filled: RSS, MiB | **100** | **101** | - | 131 |\n",
		"short sizes, 5 rounds. Allocators: glibc, jemalloc 5.3.1, Granary.",
		"(docs/images/measured.svg)", "In 2 of 4 measured rows a peer is better than Granary. [All results](results/today/README.md)",
		"<!-- measured: end -->\n\nafter\n",
	} {
		if !strings.Contains(string(text), wanted) {
			t.Errorf("no %q in\n%s", wanted, text)
		}
	}
	if strings.Contains(string(text), "not measured") || strings.Contains(string(text), "was here") {
		t.Errorf("%s", text)
	}
	if out, err := command(t, dir, "--check"); err != nil {
		t.Errorf("drawn, and not as drawn: %v\n%s", err, out)
	}
	// Other results, or a number changed by hand, or another picture: none passes.
	if err := measuredSet(5, 1, 1.4).WriteJSON(filepath.Join(dir, "results/today/store", result.File)); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, dir, "--check"); err == nil || !strings.Contains(err.Error(), "README.md") || !strings.Contains(err.Error(), "measured.svg") {
		t.Errorf("other results: %v", err)
	}
	if _, err := command(t, dir); err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(readFile(t, filepath.Join(dir, "README.md"))), "| 141 |", "| 99 |", 1)
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, dir, "--check"); err == nil || strings.Contains(err.Error(), "measured.svg") {
		t.Errorf("a number changed by hand: %v", err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestASingleRoundIsReportedToShowNothing(t *testing.T) {
	dir := project(t, measuredSet(1, 1, 1.3))
	if _, err := command(t, dir, filepath.Join(dir, "results/today")); err != nil {
		t.Fatal(err)
	}
	if text := string(readFile(t, filepath.Join(dir, "README.md"))); !strings.Contains(text, "one round, which shows no difference yet") ||
		!strings.Contains(text, "list first the rows in which a peer was ahead") {
		t.Errorf("%s", text)
	}
}

func TestWhatCannotBeDrawnIsReported(t *testing.T) {
	dir := project(t, measuredSet(3, 1, 1))
	outside := t.TempDir()
	for message, args := range map[string][]string{
		"names no folder of results; give one":             nil,
		"no such file or directory":                        {filepath.Join(dir, "results/tomorrow")},
		"holds no results; name the folder that was given": {filepath.Join(dir, "bench")},
		"is not below the folder of":                       {outside},
	} {
		if _, err := command(t, dir, args...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# Title\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, dir, filepath.Join(dir, "results/today")); !errors.Is(err, errNoBlock) {
		t.Errorf("without a block: %v", err)
	}
	for text, message := range map[string]string{
		"x = 1": `there is no setting "x"`,
		"":      "it needs a [[column]] and a [[row]]",
		strings.Replace(layout, "plot =", "#", 1):    "a plot needs a [[goal]], and a [[goal]] needs",
		strings.Replace(layout, `"rss"`, `"fun"`, 1): `there is no goal "fun"`,
		"[[row]]\ntitle='a'":                         "row 1 needs title, scenario, metric, and either phase or mean",
		strings.Replace(layout, "^write", "(", 1):    `row "writes"`,
	} {
		path := filepath.Join(dir, "layout.toml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLayout(path); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
