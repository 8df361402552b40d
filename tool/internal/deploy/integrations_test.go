package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

const repository = "../../../"

func integration(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(repository, "integrations", name))
}

// What one file calls an image, a path or a volume, the others call the same.
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

// render is the chart's deployment with its default values and others in their place; of Helm's functions
// it knows those that the chart uses.
func render(t *testing.T, set func(values map[string]any)) string {
	t.Helper()
	decode := func(name string) map[string]any {
		var out map[string]any
		if err := yaml.Unmarshal([]byte(integration(t, "kubernetes/chart/"+name)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	values, chart := decode("values.yaml"), decode("Chart.yaml")
	if set != nil {
		set(values)
	}
	functions := template.FuncMap{
		"quote":  func(v any) string { return `"` + strings.ReplaceAll(toText(t, v), `"`, `\"`) + `"` },
		"toYaml": func(v any) string { return toText(t, v) },
		"nindent": func(n int, text string) string {
			pad := "\n" + strings.Repeat(" ", n)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
	}
	page, err := template.New("").Funcs(functions).Option("missingkey=error").Parse(integration(t, "kubernetes/chart/templates/deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{"Values": values, "Chart": map[string]any{"Name": chart["name"]}, "Release": map[string]any{"Name": "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func toText(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
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
