package exporter

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"granary/tool/internal/inspect"

	"github.com/prometheus/client_golang/prometheus"
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
	library := os.Getenv("GRANARY_LIB")
	if library == "" {
		library = filepath.Join("..", "..", "..", "build", "lib", "libgranary.so")
	}
	l, err := inspect.OpenLibrary(library)
	if err != nil {
		t.Skipf("the library is not built: %v", err)
	}
	names := map[string]bool{}
	for _, m := range l.Metrics {
		names[Name(m)] = true
	}
	for _, d := range []*prometheus.Desc{infoDesc, rssDesc, agreedDesc, foundDesc, leftDesc, errorsDesc, secondsDesc} {
		names[regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(d.String())[1]] = true
	}
	return names
}

func TestRulesAndDashboardNameOnlyMetricsThatExist(t *testing.T) {
	names := known(t)
	for _, file := range []string{"prometheus/granary.rules.yml", "grafana/granary.json"} {
		used := regexp.MustCompile(`\bgranary_[a-z0-9_]+`).FindAllString(integration(t, file), -1)
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

func TestTheDashboardIsOne(t *testing.T) {
	var board struct {
		Title  string
		Panels []struct {
			Type   string
			Panels []struct{ Targets []struct{ Expr string } }
		}
	}
	if err := json.Unmarshal([]byte(integration(t, "grafana/granary.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.Title != "Granary" || len(board.Panels) < 8 {
		t.Errorf("%+v", board)
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
		{"test", "rules", "granary.rules.test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = integrations + "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
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
			if !strings.Contains(strings.Join(c.SecurityContext.Capabilities.Add, " "), "SYS_PTRACE") {
				t.Errorf("%s: the exporter may not read other users' processes", name)
			}
		}
		if !found || !p.ShareProcessNamespace && !p.HostPID {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
