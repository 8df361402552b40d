package archive

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

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench"
	"granary/tool/internal/bench/advice"
	"granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

func results(rounds int) *bench.Results {
	r := &bench.Results{
		Schema: bench.Schema, Scenario: "example", Version: "1", Rounds: rounds, Started: time.Unix(1e9, 0), Settings: map[string]any{"threads": "2,4"},
		Rows:       []bench.Row{{Phase: "a, b", Metric: "throughput", Unit: "1/s", Better: bench.Higher}, {Phase: "a, b", Metric: "RSS", Unit: "bytes", Better: bench.Lower}},
		Contenders: []allocators.Contender{{Name: "glibc", SHA256: "1"}, {Name: "granary", SHA256: "2"}},
		Sessions:   []bench.Session{{Started: time.Unix(1e9, 0)}},
		Notes:      []string{"<b>not bold</b>"},
	}
	for round := range rounds {
		for i, c := range r.Contenders {
			var s bench.Sample
			s.Set("a, b", "throughput", float64(100+10*i+round))
			s.Set("a, b", "RSS", float64(1e6+1000*i))
			s.Ran(bench.Run{Seconds: 1, OthersCPU: 0.25})
			r.Add(c.Name, round, s)
		}
	}
	return r
}

func TestAFolderHoldsEverythingAndNeedsNoNetwork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := Write(dir, results(3), advice.Goals[0], []byte("# report\n")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.json", "results.csv", "report.md", "report.html", "figures/ratio-throughput.svg", "figures/ratio-throughput.png"} {
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

func TestARerunAddsRounds(t *testing.T) {
	dir := t.TempDir()
	fresh := results(0)
	if got, err := Extend(dir, fresh); err != nil || got != fresh {
		t.Fatalf("an empty folder: %+v, %v", got, err)
	}
	if err := results(3).WriteJSON(filepath.Join(dir, File)); err != nil {
		t.Fatal(err)
	}
	fresh.Contenders = append(fresh.Contenders, allocators.Contender{Name: "jemalloc"})
	got, err := Extend(dir, fresh)
	if err != nil || got.Rounds != 3 || len(got.Observations) != 12 || len(got.Contenders) != 3 || len(got.Sessions) != 2 || len(got.Notes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatDoesNotBelongTogetherIsRefused(t *testing.T) {
	for sentence, change := range map[string]func(r *bench.Results){
		"holds results of example":                     func(r *bench.Results) { r.Scenario = "other" },
		"with threads 2,4, not 8":                      func(r *bench.Results) { r.Settings = map[string]any{"threads": "8"} },
		"another build or setting of granary":          func(r *bench.Results) { r.Contenders[1].SHA256 = "3" },
		"another build or setting of glibc; give anot": func(r *bench.Results) { r.Contenders[0].Env = []string{"A=1"} },
	} {
		dir := t.TempDir()
		if err := results(1).WriteJSON(filepath.Join(dir, File)); err != nil {
			t.Fatal(err)
		}
		fresh := results(0)
		change(fresh)
		if _, err := Extend(dir, fresh); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%q: %v", sentence, err)
		}
	}
	other := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(other, []byte(`{"schema":"else/9"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(other); err == nil || !strings.Contains(err.Error(), `schema "else/9", which this version does not read`) {
		t.Errorf("err = %v", err)
	}
}

func TestCompareShowsWhatChanged(t *testing.T) {
	a, b := results(5), results(5)
	for i, o := range b.Observations {
		if o.Contender == "granary" && o.Metric == "RSS" {
			b.Observations[i].Value *= 1.1
		}
	}
	changes := Changes(a, b, "")
	if len(changes) != 4 || changes[0].Contender != "granary" || changes[0].Row.Metric != "RSS" || !changes[0].Differs() || changes[0].Ratio < 1.09 || changes[1].Differs() {
		t.Errorf("%+v", changes)
	}
	if len(Changes(a, b, "glibc")) != 2 {
		t.Error("--allocator does not select")
	}
	dirA, dirB := t.TempDir(), t.TempDir()
	if err := errors.Join(a.WriteJSON(filepath.Join(dirA, File)), b.WriteJSON(filepath.Join(dirB, File))); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "bench compare", dirA, dirB, "--fail")
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != cli.CodeFailed || !strings.Contains(out, "10.0 % worse") || !strings.Contains(out, "4 rows compared; 3 show no difference, 1 became worse.") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(t, "bench compare", dirB, dirA, "--fail"); err != nil || !strings.Contains(out, "9.1 % better") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAReportIsWrittenAgainForAnotherGoal(t *testing.T) {
	dir := t.TempDir()
	if err := results(5).WriteJSON(filepath.Join(dir, File)); err != nil {
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
	two.Failures = []bench.Failure{{Contender: "mimalloc", Reason: "it died"}}
	alone := results(1)
	alone.Scenario = "third"
	alone.Observations = slices.DeleteFunc(alone.Observations, func(o bench.Observation) bool { return o.Contender == "glibc" })
	for _, r := range []*bench.Results{one, two, alone} {
		if err := r.WriteJSON(filepath.Join(dir, r.Scenario, File)); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Suite{Size: "quick", Said: []string{"Bounded to 40m."}}).Write(dir); err != nil {
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
	for _, wanted := range []string{"Bounded to 40m.", "### Where Granary loses", "| example | a, b: RSS, MiB |", "### Best allocators", "[other](other/report.md) | 1 | glibc (one round)", "[third](third/report.md) | 1 | - (nobody else",
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
