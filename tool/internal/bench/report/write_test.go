package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

func results(rounds int) *result.Results {
	r := &result.Results{
		Schema: result.Schema, Scenario: "example", Version: "1", Rounds: rounds, Started: time.Unix(1e9, 0), Settings: map[string]any{"threads": "2,4"},
		Rows:       []result.Row{{Phase: "a, b", Metric: "throughput", Unit: "1/s", Better: result.Higher}, {Phase: "a, b", Metric: "RSS", Unit: "bytes", Better: result.Lower}},
		Allocators: []allocators.Allocator{{Name: "glibc", SHA256: "1"}, {Name: "granary", SHA256: "2"}},
		Sessions:   []result.Session{{Started: time.Unix(1e9, 0)}},
		Notes:      []string{"<b>not bold</b>"},
	}
	for round := range rounds {
		for i, c := range r.Allocators {
			var s result.Sample
			s.Set("a, b", "throughput", float64(100+10*i+round))
			s.Set("a, b", "RSS", float64(1e6+1000*i))
			s.Ran(result.Run{Seconds: 1, OthersCPU: 0.25})
			r.Add(c.Name, round, s)
		}
	}
	return r
}

func TestAFolderHoldsEverythingAndNeedsNoNetwork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := WriteFolder(dir, results(3), Goals[0], []byte("# report\n")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.json", "results.csv", "report.md", "report.html", "plots/ratio-throughput.svg", "plots/ratio-throughput.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	html, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(html)
	for _, forbidden := range []string{"<script", "src=\"http", "href=\"http", "@import", "url(http", "<b>not bold"} {
		if strings.Contains(text, forbidden) {
			t.Errorf("the page holds %q", forbidden)
		}
	}
	for _, wanted := range []string{"Where Granary loses", "Least memory: glibc", "25.0 %", "&lt;b&gt;not bold", "<svg", "LD_PRELOAD"} {
		if !strings.Contains(text, wanted) {
			t.Errorf("the page holds no %q", wanted)
		}
	}
	file, err := os.Open(filepath.Join(dir, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if lines, err := csv.NewReader(file).ReadAll(); err != nil || len(lines) != 13 || lines[1][1] != "a, b" || lines[1][7] != "100" {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestCompareShowsWhatChanged(t *testing.T) {
	a, b := results(5), results(5)
	for i, o := range b.Observations {
		if o.Allocator == "granary" && o.Metric == "RSS" {
			b.Observations[i].Value *= 1.1
		}
	}
	changes := Changes(a, b, "")
	if len(changes) != 4 || changes[0].Allocator != "granary" || changes[0].Row.Metric != "RSS" || !changes[0].Differs() || changes[0].Ratio < 1.09 || changes[1].Differs() {
		t.Errorf("%+v", changes)
	}
	if len(Changes(a, b, "glibc")) != 2 {
		t.Error("--allocator does not select")
	}
	dirA, dirB := t.TempDir(), t.TempDir()
	if err := errors.Join(a.WriteJSON(filepath.Join(dirA, result.File)), b.WriteJSON(filepath.Join(dirB, result.File))); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "bench compare", dirA, dirB, "--fail")
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != cli.CodeFailed || !strings.Contains(out, "10.0 % worse") ||
		!strings.Contains(out, "4 rows compared; 3 show no difference, 1 became worse.") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(t, "bench compare", dirB, dirA, "--fail"); err != nil || !strings.Contains(out, "9.1 % better") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAReportIsWrittenAgainForAnotherGoal(t *testing.T) {
	dir := t.TempDir()
	if err := results(5).WriteJSON(filepath.Join(dir, result.File)); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "bench report", dir, "--goal", "throughput", "--service", "redis")
	if err != nil || !strings.Contains(out, "Highest throughput over 1 row: granary.") || !strings.Contains(out, "/etc/systemd/system/redis.service.d/") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
	if _, err := run(t, "bench report", dir, "--goal", "fun"); err == nil || !strings.Contains(err.Error(), "choose from rss, throughput, p99, cpu") {
		t.Errorf("err = %v", err)
	}
}

func TestAFolderOfSeveralScenariosIsSummedUpTheLossesFirst(t *testing.T) {
	dir := t.TempDir()
	one, two := results(5), results(1)
	two.Scenario = "other"
	two.Failures = []result.Failure{{Allocator: "mimalloc", Reason: "it died"}}
	alone := results(1)
	alone.Scenario = "third"
	alone.Observations = slices.DeleteFunc(alone.Observations, func(o result.Observation) bool { return o.Allocator == "glibc" })
	for _, r := range []*result.Results{one, two, alone} {
		if err := r.WriteJSON(filepath.Join(dir, r.Scenario, result.File)); err != nil {
			t.Fatal(err)
		}
	}
	if err := (result.Suite{Size: "quick", Remarks: []string{"Bounded to 40m."}}).Write(dir); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "bench report", dir)
	if err != nil || !strings.Contains(out, "Where Granary loses") {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, Summary))
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, wanted := range []string{"Bounded to 40m.", "### Where Granary loses", "| example | a, b: RSS, MiB |", "### Best allocators",
		"[other](other/report.md) | 1 | glibc (one round)", "[third](third/report.md) | 1 | - (no other allocator",
		"### Remarks", "- example, other, third: <b>not bold</b>", "- other: mimalloc failed in round 1: it died"} {
		at := strings.Index(string(data), wanted)
		if wanted[0] != '-' && at < last || at < 0 {
			t.Errorf("%q stands at %d, after %d", wanted, at, last)
		}
		last = at
	}
	if _, err := os.Stat(filepath.Join(dir, "other", "report.html")); err != nil {
		t.Error(err)
	}
}

// run runs a command of this package.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	for _, c := range Commands {
		if c.Name != name {
			continue
		}
		fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
		act := c.Setup(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out}, fs.Args())
		return out.String(), err
	}
	t.Fatalf("no command %s", name)
	return "", nil
}
