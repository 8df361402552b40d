package exporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const integrations = "../../../integrations/"

func integration(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(integrations + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// known are the names that the exporter serves, those of the built library's table included.
func known(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, m := range libraryMetrics(t) {
		names[Name(m)] = true
	}
	for _, d := range ownMetrics {
		names[d.name] = true
	}
	return names
}

func libraryPath() string {
	if library := os.Getenv("GRANARY_LIB"); library != "" {
		return library
	}
	return filepath.Join("..", "..", "..", "build", "lib", "libgranary.so")
}

// recorded are the names of recording rules.
var recorded = regexp.MustCompile(`\b[a-z_]+:[a-z_]+(:[a-z0-9_]+)?`)

func TestRulesAndDashboardNameOnlyMetricsThatExist(t *testing.T) {
	names := known(t)
	for _, file := range []string{"prometheus/granary.rules.yml", "grafana/granary.json", "grafana/granary-fleet.json"} {
		text := recorded.ReplaceAllString(integration(t, file), "")
		used := regexp.MustCompile(`\bgranary_[a-z0-9_]+`).FindAllString(text, -1)
		if len(used) < 10 {
			t.Errorf("%s names %d metrics", file, len(used))
		}
		for _, name := range used {
			if !names[name] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// The part of Grafana's schema that this dashboard uses; other fields are refused.
type dashboard struct {
	Title, UID, Refresh string
	Tags                []string
	SchemaVersion       int
	Editable            bool
	Time                struct{ From, To string }
	Panels              []panel
	Templating          struct{ List []variable }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Collapsed                bool
	Datasource               *datasource
	GridPos                  struct{ X, Y, W, H int }
	Panels                   []panel
	Targets                  []struct {
		Expr, LegendFormat, RefID string
		Datasource                datasource
	}
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Min    float64
			Custom struct {
				FillOpacity int
				ShowPoints  string
				Stacking    *struct{ Mode string }
			}
		}
		Overrides []struct{}
	}
	Options struct {
		Tooltip struct{ Mode string }
		Legend  struct{ DisplayMode, Placement string }
	}
}

type datasource struct{ Type, UID string }

type variable struct {
	Type, Name, Label string
	Multi, IncludeAll bool
	Refresh, Sort     int
	Datasource        *datasource
	Query             any
	Current           struct{ Text, Value string }
}

func (p panel) overlaps(q panel) bool {
	a, b := p.GridPos, q.GridPos
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// apart checks that no panel overlaps another of the same row.
func apart(t *testing.T, panels []panel) {
	t.Helper()
	for i, p := range panels {
		for _, q := range panels[:i] {
			if p.overlaps(q) {
				t.Errorf("panel %q lies over %q", p.Title, q.Title)
			}
		}
	}
}

// dashboards are the files, with their titles.
var dashboards = map[string]string{"grafana/granary.json": "Granary", "grafana/granary-fleet.json": "Granary fleet"}

func readDashboard(t *testing.T, file string) (board dashboard, panels []panel) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(integration(t, file)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		panels = append(append(panels, p), p.Panels...)
	}
	return board, panels
}

func TestDashboardsAreWellFormed(t *testing.T) {
	for file, title := range dashboards {
		board, panels := readDashboard(t, file)
		if board.Title != title || board.SchemaVersion < 36 || len(panels) < 40 {
			t.Errorf("%q, schema %d, %d panels", board.Title, board.SchemaVersion, len(panels))
		}
		checkPanels(t, board, panels)
	}
}

func checkPanels(t *testing.T, board dashboard, panels []panel) {
	t.Helper()
	apart(t, board.Panels)
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range board.Templating.List {
		variables[v.Name] = true
	}
	for i, p := range panels {
		if p.Title == "" || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && (p.Type != "timeseries" || len(p.Targets) == 0) {
			t.Errorf("panel %d: %+v", i, p)
		}
		apart(t, p.Panels)
		names := map[string]bool{}
		for _, target := range p.Targets {
			if names[target.RefID] || target.RefID == "" {
				t.Errorf("panel %q: two queries are named %q", p.Title, target.RefID)
			}
			names[target.RefID] = true
			for _, v := range variableUse.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("panel %q: there is no variable $%s", p.Title, v[1])
				}
			}
		}
	}
}

var variableUse = regexp.MustCompile(`\$([a-z_]+)`)

// Prometheus' own parser checks the queries.
func TestQueriesOfTheDashboardAreQueries(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	var panels []panel
	for file := range dashboards {
		_, more := readDashboard(t, file)
		panels = append(panels, more...)
	}
	rules, n := "groups:\n- name: dashboard\n  rules:\n", 0
	for _, p := range panels {
		for _, target := range p.Targets {
			expr := variableUse.ReplaceAllString(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), ".*")
			rules += fmt.Sprintf("  - record: query:%d\n    expr: %q\n", n, expr)
			n++
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprint(n, " rules")) {
		t.Errorf("promtool check rules of %d queries: %v\n%s", n, err, out)
	}
}

func TestRulesWithPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "granary.rules.yml"},
		{"check", "config", "prometheus.yml"},
		{"test", "rules", "granary.rules.test.yml", "fleet.rules.test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = integrations + "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Each alert has a test in which it fires, one in which it does not, and a section that says what to do.
func TestAlertsHaveTestsAndRunbooks(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, file := range []string{"prometheus/granary.rules.test.yml", "prometheus/fleet.rules.test.yml"} {
		var tests struct {
			Tests []struct {
				Alerts []struct {
					Name string `yaml:"alertname"`
					Want []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(integration(t, file)), &tests); err != nil {
			t.Fatal(err)
		}
		for _, each := range tests.Tests {
			for _, a := range each.Alerts {
				fires[a.Name], silent[a.Name] = fires[a.Name] || len(a.Want) > 0, silent[a.Name] || len(a.Want) == 0
			}
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(integration(t, "prometheus/granary.rules.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	runbook := integration(t, "../docs/guides/alerts.md")
	for _, r := range rules.Groups[0].Rules {
		if r.Alert == "" {
			continue
		}
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a test in which it fires: %v, one in which it does not: %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if want := "docs/guides/alerts.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want || !strings.Contains(runbook, "\n## "+r.Alert+"\n") {
			t.Errorf("%s has no section in docs/guides/alerts.md, or does not name it: %q", r.Alert, r.Annotations["runbook"])
		}
	}
}

// parses is true when the exporter takes these arguments.
func parses(t *testing.T, where string, args []string) {
	t.Helper()
	if len(args) == 0 || args[0] != "exporter" {
		t.Errorf("%s starts %q", where, args)
		return
	}
	fs := pflag.NewFlagSet("exporter", pflag.ContinueOnError)
	setup(fs)
	if err := fs.Parse(args[1:]); err != nil || fs.NArg() > 0 {
		t.Errorf("%s: %q: %v", where, args, err)
	}
}

func TestUnitsStartTheExporterAsItIs(t *testing.T) {
	start := regexp.MustCompile(`(?m)^ExecStart=\S*/granary (.*)$`).FindStringSubmatch(integration(t, "systemd/granary-exporter.service"))
	if start == nil {
		t.Fatal("the systemd unit starts nothing")
	}
	parses(t, "systemd", strings.Fields(start[1]))
	command := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(integration(t, "kubernetes/Dockerfile"))
	var words []string
	if command == nil || json.Unmarshal([]byte(command[1]), &words) != nil {
		t.Fatal("the Dockerfile starts nothing")
	}
	parses(t, "Dockerfile", words)
}

type pod struct {
	ShareProcessNamespace bool `yaml:"shareProcessNamespace"`
	HostPID               bool `yaml:"hostPID"`
	Containers            []struct {
		Name            string
		Args            []string
		SecurityContext struct {
			Capabilities struct{ Add []string }
		} `yaml:"securityContext"`
	}
}

func TestKubernetesExamplesCanSeeOtherProcesses(t *testing.T) {
	for name, get := range map[string]func(map[string]yaml.Node) (pod, error){
		"sidecar.yaml": func(m map[string]yaml.Node) (p pod, err error) {
			node := m["spec"]
			err = node.Decode(&p)
			return p, err
		},
		"node.yaml": func(m map[string]yaml.Node) (pod, error) {
			var spec struct{ Template struct{ Spec pod } }
			node := m["spec"]
			err := node.Decode(&spec)
			return spec.Template.Spec, err
		},
	} {
		var manifest map[string]yaml.Node
		decoder := yaml.NewDecoder(strings.NewReader(integration(t, "kubernetes/"+name)))
		if err := decoder.Decode(&manifest); err != nil {
			t.Fatal(err)
		}
		if err := decoder.Decode(&manifest); !errors.Is(err, io.EOF) {
			t.Errorf("%s holds more than one object: %v", name, err)
		}
		p, err := get(manifest)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, c := range p.Containers {
			if c.Name != "granary-exporter" {
				continue
			}
			found = true
			parses(t, name, c.Args)
			if rights := strings.Join(c.SecurityContext.Capabilities.Add, " "); rights != neededRights {
				t.Errorf("%s: the exporter has the rights %q, and needs %q", name, rights, neededRights)
			}
		}
		if !found || !p.ShareProcessNamespace && !p.HostPID {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
