package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const repository = "../../../"

func integration(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(repository, "integrations", name))
}

// Images, paths and volumes have the same names in all files.
func TestImagesAndManifestsAgree(t *testing.T) {
	version := strings.TrimSpace(readFile(t, repository+"VERSION"))
	files := map[string]string{"chart": render(t, nil)}
	for _, name := range []string{"docker/Dockerfile", "docker/mariadb.Dockerfile", "docker/compose.yaml", "kubernetes/sidecar.yaml", "kubernetes/node.yaml",
		"kubernetes/Dockerfile"} {
		files[name] = integration(t, name)
	}
	for name, text := range files {
		for _, image := range regexp.MustCompile(`granary(-lib)?:([0-9][0-9.]*)`).FindAllStringSubmatch(text, -1) {
			if image[2] != version {
				t.Errorf("%s names %s, the version is %s", name, image[0], version)
			}
		}
	}
	const inImage = "/lib/libgranary.so.1"
	if !strings.Contains(files["docker/Dockerfile"], "/src/build/lib/libgranary.so.1 "+inImage+"\n") {
		t.Errorf("the image of the library does not hold %s", inImage)
	}
	for name, copied := range map[string]string{"docker/mariadb.Dockerfile": inImage + " /usr/local/lib/libgranary.so.1",
		"kubernetes/sidecar.yaml": `"` + inImage + `", "/granary/libgranary.so.1"`, "chart": `"` + inImage + `", "/granary/libgranary.so.1"`} {
		if !strings.Contains(files[name], copied) {
			t.Errorf("%s does not copy %s", name, copied)
		}
	}
	for name, preloaded := range map[string]string{"docker/mariadb.Dockerfile": "=/usr/local/lib/libgranary.so.1",
		"docker/compose.yaml": ": /granary/libgranary.so.1", "kubernetes/sidecar.yaml": "value: /granary/libgranary.so.1", "chart": "value: /granary/libgranary.so.1"} {
		if !strings.Contains(files[name], preloaded) {
			t.Errorf("%s does not preload %s", name, preloaded)
		}
	}
}

// render is the chart's deployment with its default values and others in their place.
func render(t *testing.T, set func(values map[string]any)) string {
	t.Helper()
	return renderChart(t, "chart", set)["deployment.yaml"]
}

// renderChart is what Helm makes of a chart for the release "shop": the text of each template.
func renderChart(t *testing.T, name string, set func(values map[string]any)) map[string]string {
	t.Helper()
	loaded, err := loader.Load(filepath.Join(repository, "integrations", "kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(loaded.Values)
	}
	values, err := chartutil.ToRenderValues(loaded, nil, chartutil.ReleaseOptions{Name: "shop", Namespace: "default"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Engine{Strict: true, LintMode: true}.Render(loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, text := range rendered {
		out[filepath.Base(path)] = text
	}
	return out
}

func TestHelmAcceptsTheCharts(t *testing.T) {
	for _, name := range []string{"chart", "node-chart"} {
		result := lint.All(filepath.Join(repository, "integrations", "kubernetes", name), map[string]any{}, "default", true)
		for _, m := range result.Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// A daemonSet is the part of one that says what its containers may do.
type daemonSet struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				HostPID                      bool  `yaml:"hostPID"`
				AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
				Volumes                      []any
				Containers                   []struct {
					Name            string
					Args            []string
					SecurityContext struct {
						Privileged               bool
						AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
						ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
						Capabilities             struct{ Add, Drop []string }
					} `yaml:"securityContext"`
				}
			}
		}
	}
}

// The right that is left is the one that TestTheExporterNeedsOneRight of the exporter shows to be needed.
func TestTheDaemonSetHasOneRight(t *testing.T) {
	for _, c := range []struct {
		set        func(map[string]any)
		containers int
		args       []string
	}{
		{nil, 1, []string{"--max-processes=500"}},
		{func(v map[string]any) {
			exporter := v["exporter"].(map[string]any)
			exporter["byCommand"], exporter["command"], exporter["push"] = true, "^(a|b)$", "http://otel:4317"
			v["agent"].(map[string]any)["enabled"] = true
			v["podMonitor"] = true
		}, 2, []string{"--by-command", "--command=^(a|b)$", "--push=http://otel:4317", "--protocol=otlp"}},
	} {
		files := renderChart(t, "node-chart", c.set)
		var d daemonSet
		if err := yaml.Unmarshal([]byte(files["daemonset.yaml"]), &d); err != nil {
			t.Fatal(err)
		}
		pod := d.Spec.Template.Spec
		token := pod.AutomountServiceAccountToken
		if d.Kind != "DaemonSet" || !pod.HostPID || len(pod.Volumes) > 0 || token == nil || *token || len(pod.Containers) != c.containers {
			t.Fatalf("%+v", d)
		}
		for _, container := range pod.Containers {
			s := container.SecurityContext
			if s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem ||
				strings.Join(s.Capabilities.Drop, " ") != "ALL" || strings.Join(s.Capabilities.Add, " ") != "SYS_PTRACE" {
				t.Errorf("%s may do more than it needs: %+v", container.Name, s)
			}
		}
		for _, arg := range c.args {
			if !slices.Contains(pod.Containers[0].Args, arg) {
				t.Errorf("the exporter is started with %q, without %s", pod.Containers[0].Args, arg)
			}
		}
		if monitored := strings.Contains(files["podmonitor.yaml"], "kind: PodMonitor"); monitored != (c.containers == 2) {
			t.Errorf("a PodMonitor: %v", monitored)
		}
	}
}

type deployment struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				ShareProcessNamespace bool                    `yaml:"shareProcessNamespace"`
				InitContainers        []struct{ Name string } `yaml:"initContainers"`
				Containers            []struct {
					Name string
					Args []string
					Env  []struct{ Name, Value string }
				}
			}
		}
	}
}

func TestTheChartIsOneDeployment(t *testing.T) {
	for _, c := range []struct {
		name       string
		set        func(map[string]any)
		containers int
		variables  string
	}{
		{"as it is", nil, 2, "LD_PRELOAD"},
		{"with options", func(v map[string]any) {
			v["library"].(map[string]any)["options"] = "zero:true"
			v["env"] = []any{map[string]any{"name": "A", "value": "b"}}
		}, 2, "LD_PRELOAD GRANARY_CONF A"},
		{"without the exporter", func(v map[string]any) { v["exporter"].(map[string]any)["enabled"] = false }, 1, "LD_PRELOAD"},
	} {
		var d deployment
		if err := yaml.Unmarshal([]byte(render(t, c.set)), &d); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		pod := d.Spec.Template.Spec
		var names []string
		for _, v := range pod.Containers[0].Env {
			names = append(names, v.Name)
		}
		if d.Kind != "Deployment" || len(pod.InitContainers) != 1 || len(pod.Containers) != c.containers || strings.Join(names, " ") != c.variables {
			t.Errorf("%s: %+v", c.name, d)
		}
		if pod.ShareProcessNamespace != (c.containers == 2) {
			t.Errorf("%s: the exporter sees the server: %v", c.name, pod.ShareProcessNamespace)
		}
	}
}

func TestComposeStartsTheExporterInTheServersNamespace(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Image, Pid string
			CapAdd     []string `yaml:"cap_add"`
			Volumes    []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(integration(t, "docker/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	for name, s := range compose.Services {
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := compose.Volumes[volume]; !ok {
				t.Errorf("%s mounts %s, which is declared nowhere", name, volume)
			}
		}
	}
	exporter := compose.Services["exporter"]
	_, server, _ := strings.Cut(exporter.Pid, "service:")
	if _, ok := compose.Services[server]; !ok || !strings.Contains(strings.Join(exporter.CapAdd, " "), "SYS_PTRACE") {
		t.Errorf("the exporter sees no service: %+v", exporter)
	}
	if _, err := os.Stat(repository + ".dockerignore"); err != nil {
		t.Error("the build context holds build/: there is no .dockerignore")
	}
}
