package allocators

import (
	"fmt"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// A dialect is the syntax of an allocator's settings. With a variable, all settings are in it, as
// name, pair, value, separated by list; with a prefix, each is a separate variable.
type dialect struct {
	name     string // allocators whose name contains it use the dialect
	variable string
	pair     string
	list     string
	prefix   string
}

var dialects = []dialect{
	{name: inspect.Granary, variable: "GRANARY_CONF", pair: ":", list: ","},
	{name: "jemalloc", variable: "MALLOC_CONF", pair: ":", list: ","},
	{name: "mimalloc", prefix: "MIMALLOC_"},
	{name: "tcmalloc", prefix: "TCMALLOC_"},
	{name: "glibc", variable: "GLIBC_TUNABLES", pair: "=", list: ":", prefix: "glibc.malloc."},
}

// Variants are settings that people run allocators with, as allocators in addition to the plain ones.
var Variants = []string{"glibc:MALLOC_ARENA_MAX=2", "jemalloc:background_thread=true", "new-jemalloc:background_thread=true", "granary:dirty_decay_ms=100"}

// withSettings parses NAME:SETTING=VALUE[+SETTING=VALUE...]. A setting in capital letters is an
// environment variable; the other settings use the allocator's own option syntax.
func withSettings(item string, known []Allocator, missing []string) (Allocator, error) {
	name, settings, _ := strings.Cut(item, ":")
	base, err := named(name, known, missing)
	if err != nil {
		return base, err
	}
	c := base
	c.Name, c.Env = item, slices.Clone(base.Env)
	for setting := range strings.SplitSeq(settings, "+") {
		key, value, ok := strings.Cut(setting, "=")
		if !ok || key == "" || value == "" {
			return c, fmt.Errorf("%q is no setting; write %s:SETTING=VALUE", setting, name)
		}
		if c.Env, err = set(c.Env, name, key, value); err != nil {
			return c, err
		}
	}
	return c, nil
}

// The settings that the C library's malloc reads. It ignores unknown settings silently, and users often forget the
// underscores at the end of the variables.
var (
	glibcVariables = []string{
		"MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_PERTURB_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_",
	}
	glibcTunables = []string{
		"arena_max", "arena_test", "check", "hugetlb", "mmap_max", "mmap_threshold", "mxfast", "perturb", "tcache_count", "tcache_max",
		"tcache_unsorted_limit", "top_pad", "trim_threshold",
	}
)

// knownToGlibc refuses settings that the C library would not read.
func knownToGlibc(key string) error {
	known := glibcTunables
	switch {
	case strings.HasPrefix(key, "MALLOC_"):
		known = glibcVariables
	case isVariable(key):
		return nil
	}
	if slices.Contains(known, key) {
		return nil
	}
	return fmt.Errorf("glibc reads no setting %s, and would not say so; choose from %s", key, strings.Join(known, ", "))
}

// set adds a setting to an environment.
func set(env []string, allocator, key, value string) ([]string, error) {
	if allocator == "glibc" {
		if err := knownToGlibc(key); err != nil {
			return nil, err
		}
	}
	if isVariable(key) {
		return append(env, key+"="+value), nil
	}
	i := slices.IndexFunc(dialects, func(d dialect) bool { return strings.Contains(allocator, d.name) })
	if i < 0 {
		return nil, fmt.Errorf("it is not known how %s reads the setting %s; give a variable in capital letters", allocator, key)
	}
	d := dialects[i]
	if d.variable == "" {
		return append(env, d.prefix+strings.ToUpper(key)+"="+value), nil
	}
	text := d.prefix + key + d.pair + value
	for j, entry := range env {
		if old, ok := strings.CutPrefix(entry, d.variable+"="); ok {
			env[j] = d.variable + "=" + old + d.list + text
			return env, nil
		}
	}
	return append(env, d.variable+"="+text), nil
}

// AddVariants appends to a selection the Variants whose allocator is in it.
func AddVariants(selected []Allocator) []Allocator {
	out := slices.Clone(selected)
	for _, item := range Variants {
		if c, err := withSettings(item, selected, nil); err == nil { // else its allocator is not there
			out = append(out, c)
		}
	}
	return out
}
