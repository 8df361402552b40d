package micro

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

const suite = `
[[program]]
name = "alpha"
args = ["100"]
quick = ["1"]
  [[program.metric]]
  name = "speed"
  unit = "Mops/s"
  better = "higher"

[[program]]
name = "beta"
program = "alpha"
time = false
rss = false
`

// alpha prints its argument as its speed.
const alpha = "#!/bin/sh\necho hello\necho \"metric speed ${1:-0} Mops/s\"\n"

func workspace(t *testing.T, suiteText, program string) (suitePath, programs string) {
	t.Helper()
	dir := t.TempDir()
	suitePath = filepath.Join(dir, "suite.toml")
	if err := os.WriteFile(suitePath, []byte(suiteText), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alpha"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	return suitePath, dir
}

func TestReadSuite(t *testing.T) {
	path, _ := workspace(t, suite, alpha)
	s, err := ReadSuite(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Find("alpha").Arguments(true); !reflect.DeepEqual(got, []string{"1"}) {
		t.Errorf("quick arguments %q", got)
	}
	var rows []string
	for _, r := range s.Rows() {
		rows = append(rows, r.Phase+":"+r.Metric)
	}
	want := "alpha:wall time,alpha:CPU time,alpha:peak RSS,alpha:page faults,alpha:speed,beta:page faults"
	if got := strings.Join(rows, ","); got != want {
		t.Errorf("rows %s", got)
	}
	if only, err := s.Only("^b"); err != nil || !reflect.DeepEqual(only.Names(), []string{"beta"}) {
		t.Errorf("only %q, %v", only.Names(), err)
	}
}

func TestReadSuiteRefusesMistakes(t *testing.T) {
	for text, message := range map[string]string{
		"":                               "it has no [[program]]",
		"[[program]]\nargs=[]":           "program 1 has no name",
		"[[program]]\nname='a'\nspeed=1": `there is no setting "program.speed"`,
		"[[program]]\nname='a'\n[[program]]\nname='a'":                                   "two programs are called a",
		"[[program]]\nname='a'\n[[program.metric]]\nname='m'\nunit='s'\nbetter='faster'": "better is lower or higher",
		"not toml": "read the suite",
	} {
		path, _ := workspace(t, text, alpha)
		if _, err := ReadSuite(path); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheProjectsOwnSuiteIsRead(t *testing.T) {
	if _, err := ReadSuite("../../../../bench/suites/micro.toml"); err != nil {
		t.Error(err)
	}
}

func TestParseMetrics(t *testing.T) {
	got := parseMetrics("x\nmetric a 1.5 ns\nmetrics b 2\n metric c 3\nmetric d 4e3 1/s\r\n")
	if !reflect.DeepEqual(got, map[string]string{"a": "1.5", "d": "4e3"}) {
		t.Errorf("metrics %v", got)
	}
}

func TestParseSeries(t *testing.T) {
	got, err := parseSeries("p", "metric a 1 s\npoint RSS 0.5 100\npoint b 0 7\npoint RSS 1 200\n")
	want := []result.Series{
		{Phase: "p", Metric: "RSS", Unit: "bytes", Points: [][2]float64{{0.5, 100}, {1, 200}}},
		{Phase: "p", Metric: "b", Unit: "bytes", Points: [][2]float64{{0, 7}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("series %v, %v", got, err)
	}
	if _, err := parseSeries("p", "point RSS soon 100\n"); err == nil || !strings.Contains(err.Error(), "RSS over time, of p") {
		t.Error(err)
	}
}

// micro runs the command under the system's allocator, once under its own name and once as a peer.
func micro(t *testing.T, suiteText, program string, more ...string) (stdout string, err error) {
	t.Helper()
	path, programs := workspace(t, suiteText, program)
	var out, errs bytes.Buffer
	args := append([]string{"--suite", path, "--programs", programs, "--allocators", "glibc", "--rounds", "2"}, more...)
	fs := pflag.NewFlagSet("bench micro", pflag.ContinueOnError)
	act := setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	err = act(context.Background(), cli.Env{Stdout: &out, Stderr: &errs, Environ: os.Environ()}, fs.Args())
	return out.String(), err
}

func TestCommandMeasuresAndWritesReports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	out, err := micro(t, suite, alpha, "--out", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"alpha", "speed, Mops/s", "100 ±0% *", "Geometric mean"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r result.Results
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Values("glibc", result.Key{Phase: "alpha", Metric: "speed"}); r.Schema != result.Schema || !reflect.DeepEqual(got, map[int]float64{0: 100, 1: 100}) {
		t.Errorf("schema %s, speeds %v", r.Schema, got)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "report.md")); err != nil || !strings.Contains(string(page), "# Results: micro") {
		t.Errorf("report: %v", err)
	}
}

func TestCommandExplainsFailures(t *testing.T) {
	for _, c := range []struct {
		program, message string
		fails            bool
	}{
		{"#!/bin/sh\necho broken; exit 4\n", "failed (exit status 4); the end of its log says: broken", true},
		{"#!/bin/sh\necho silent\n", "alpha printed no `metric speed`", false},
		{"#!/bin/sh\necho metric speed fast x\n", "metric speed of alpha", false},
	} {
		out, err := micro(t, suite, c.program)
		if !strings.Contains(out, c.message) || (err != nil) != c.fails {
			t.Errorf("%q: %v\n%s", c.program, err, out)
		}
	}
	if _, err := micro(t, suite, alpha, "--only", "nothing"); err == nil || !strings.Contains(err.Error(), "matches no program") {
		t.Errorf("--only: %v", err)
	}
}

func TestProgramsThatAreNotBuiltAreReportedOnce(t *testing.T) {
	dir := t.TempDir()
	suite := Suite{Programs: []Program{{Name: "one"}, {Name: "two"}}}
	if err := suite.built(dir); err == nil || !strings.Contains(err.Error(), "build it with `make bench`") {
		t.Errorf("err = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "two"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := suite.built(dir); err != nil { // a missing program fails alone, and the others are measured
		t.Error(err)
	}
}
