package report

import (
	"fmt"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/allocators"
)

// A Recipe holds the exact lines that deploy an allocator in one environment.
type Recipe struct{ Where, Lines string }

// Deploy are the recipes of an allocator. The C library's own allocator needs variables only.
func Deploy(c allocators.Allocator, service string) []Recipe {
	vars := c.Variables(false)
	if len(vars) == 0 {
		return []Recipe{{"everywhere", "Nothing to do: it is the default of every program."}}
	}
	return []Recipe{
		{"systemd", systemd(vars, service)},
		{"Docker", docker(c, vars)},
		{"Kubernetes", kubernetes(vars)},
		{"a shell", strings.Join(quoted(vars), " ") + " " + service},
	}
}

func systemd(vars []string, service string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# /etc/systemd/system/%s.service.d/allocator.conf\n[Service]\n", service)
	for _, v := range vars {
		fmt.Fprintf(&b, "Environment=\"%s\"\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(v))
	}
	fmt.Fprintf(&b, "# then: systemctl daemon-reload && systemctl restart %s", service)
	return b.String()
}

func docker(c allocators.Allocator, vars []string) string {
	var b strings.Builder
	if !c.System {
		fmt.Fprintf(&b, "# in the Dockerfile, with the library beside it\nCOPY %s %s\n", baseName(c.Path), c.Path)
	}
	for _, v := range vars {
		key, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "ENV %s=\"%s\"\n", key, strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func kubernetes(vars []string) string {
	var b strings.Builder
	b.WriteString("# in the container of the pod; the image holds the library\nenv:\n")
	for _, v := range vars {
		key, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "  - name: %s\n    value: \"%s\"\n", key, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func quoted(vars []string) []string {
	var out []string
	for _, v := range vars {
		key, value, _ := strings.Cut(v, "=")
		if strings.ContainsAny(value, " '\"$;&|<>()*?") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		out = append(out, key+"="+value)
	}
	return out
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
