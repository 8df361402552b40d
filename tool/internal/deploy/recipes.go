package deploy

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// A recipe is how a service is put under Granary where systemd does not run it.
type recipe struct {
	where string
	signs []string // files that show that a host is of this kind
	lines func(s Service, vars []string) []string
}

var recipes = []recipe{
	{"Docker, Kubernetes", []string{"/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"}, func(_ Service, vars []string) []string {
		out := []string{"in the Dockerfile (or `docker run -e`, `environment:`, `env:` of a pod):"}
		for _, v := range vars {
			out = append(out, "ENV "+v)
		}
		return append(out, "then start the container anew")
	}},
	{"mysqld_safe", nil, func(s Service, vars []string) []string {
		if !s.Safe {
			return nil
		}
		library := strings.TrimPrefix(vars[0], "LD_PRELOAD=")
		out := []string{"in a file of your own below /etc/mysql/conf.d:", "[mysqld_safe]", "malloc-lib=" + library}
		return append(append(out, commented("GRANARY_CONF in the environment of mysqld_safe", vars[1:])...), "then restart it by its init script")
	}},
	{"OpenRC", []string{"/run/openrc", "/sbin/openrc-run"}, func(s Service, vars []string) []string {
		return append(append([]string{"at the end of /etc/conf.d/" + s.Name + ":"}, exports(vars)...), "then: rc-service "+s.Name+" restart")
	}},
	{"s6", []string{"/run/s6", "/run/s6-rc"}, func(s Service, vars []string) []string {
		out := []string{"in the run script of " + s.Name + ", before the program (execline):"}
		for _, v := range vars {
			out = append(out, "export "+strings.Replace(v, "=", " ", 1))
		}
		return append(out, "then: s6-svc -r on its service directory")
	}},
	{"runit, or a run script in sh", []string{"/run/runit", "/etc/runit"}, func(s Service, vars []string) []string {
		return append(append([]string{"in the run script of " + s.Name + ", before exec:"}, exports(vars)...), "then: sv restart "+s.Name)
	}},
	{"an init script", []string{"/etc/init.d"}, func(s Service, vars []string) []string {
		return append(append([]string{"at the end of /etc/default/" + s.Defaults + " (Red Hat: /etc/sysconfig/" + s.Defaults + "):"}, exports(vars)...),
			"then: service "+s.Defaults+" restart")
	}},
	{"a shell", nil, func(_ Service, vars []string) []string { return []string{strings.Join(vars, " ") + " PROGRAM"} }},
}

func exports(vars []string) []string {
	var out []string
	for _, v := range vars {
		out = append(out, "export "+v)
	}
	return out
}

func commented(what string, vars []string) []string {
	var out []string
	for _, v := range vars {
		out = append(out, "# and "+what+": "+v)
	}
	return out
}

// here says whether the host at root shows the signs of a recipe.
func (r recipe) here(root string) bool {
	for _, sign := range r.signs {
		if found, err := filepath.Glob(filepath.Join(root, sign)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// tellRecipes prints all of them, those that fit the host first.
func tellRecipes(out io.Writer, root string, s Service, d dropIn) {
	for _, fits := range []bool{true, false} {
		for _, r := range recipes {
			lines := r.lines(s, d.variables())
			if r.here(root) != fits || len(lines) == 0 {
				continue
			}
			head := r.where
			if fits {
				head += " (this host, it seems)"
			}
			fmt.Fprintf(out, "%s\n    %s\n", head, strings.Join(lines, "\n    "))
		}
	}
}
