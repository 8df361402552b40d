package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/options"
)

// effective are the options that change what a simulation shows.
var effective = []string{
	"dirty_decay_ms", "muzzy_decay_ms", "background_thread", "cache", "cache_max", "cache_bytes", "cache_count", "huge_pages",
	"oversize_threshold", "retain", "soft_limit", "hard_limit", "follow_cgroup",
}

// maxSettings bounds the time of one command.
const maxSettings = 256

// settings are all combinations of the values in --set NAME=VALUE,VALUE..., as the library reads them.
func settings(sets []string) ([]string, error) {
	out := []string{""}
	var names []string
	for _, set := range sets {
		name, list, found := strings.Cut(set, "=")
		if !found || list == "" {
			return nil, cli.Usagef("--set %s has no values: write NAME=VALUE,VALUE", set)
		}
		if !slices.Contains(effective, name) {
			return nil, ineffective(name)
		}
		if slices.Contains(names, name) {
			return nil, cli.Usagef("--set %s is there twice: write all values behind one", name)
		}
		names = append(names, name)
		out = times(out, name, strings.Split(list, ","))
		if len(out) > maxSettings {
			return nil, cli.Usagef("these are %d settings or more: at most %d are simulated by one command", len(out), maxSettings)
		}
	}
	return out, nil
}

// ineffective says why an option is not one of those that a simulation can set.
func ineffective(name string) error {
	all := options.Table()
	if slices.ContainsFunc(all, func(o options.Option) bool { return o.Name == name }) {
		return cli.Usagef("--set %s: a simulation shows nothing of this option; it can set %s", name, strings.Join(effective, ", "))
	}
	if near := cli.Nearest(effective, name); near != "" {
		return cli.Usagef("--set %s: there is no such option; did you mean %s?", name, near)
	}
	return cli.Usagef("--set %s: there is no such option; a simulation can set %s", name, strings.Join(effective, ", "))
}

func times(before []string, name string, values []string) []string {
	var out []string
	for _, row := range before {
		for _, value := range values {
			next := fmt.Sprintf("%s:%s", name, strings.TrimSpace(value))
			if row != "" {
				next = row + "," + next
			}
			out = append(out, next)
		}
	}
	return out
}
