package doctor

import (
	"fmt"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/options"
)

const (
	decay         = "GRANARY_CONF=dirty_decay_ms:MILLISECONDS"
	noArenas      = "nothing: Granary has a cache for each CPU and no arenas"
	ownPages      = "nothing: blocks above 1 MiB always have pages of their own"
	alwaysChecked = "nothing: frees are always checked"
	tunables      = "GLIBC_TUNABLES"
)

// settings are the variables that only some allocators read; with dots, parts of GLIBC_TUNABLES.
var settings = []struct {
	variable string
	readBy   []string
	instead  string // the setting for Granary
}{
	{"GRANARY_CONF", []string{inspect.Granary}, ""},
	{"MALLOC_CONF", []string{"jemalloc", inspect.Granary}, "the same options in GRANARY_CONF"},
	{"MALLOC_ARENA_MAX", []string{"glibc"}, noArenas},
	{"MALLOC_ARENA_TEST", []string{"glibc"}, noArenas},
	{"MALLOC_TRIM_THRESHOLD_", []string{"glibc"}, decay},
	{"MALLOC_TOP_PAD_", []string{"glibc"}, decay},
	{"MALLOC_MMAP_THRESHOLD_", []string{"glibc"}, ownPages},
	{"MALLOC_MMAP_MAX_", []string{"glibc"}, ownPages},
	{"MALLOC_PERTURB_", []string{"glibc"}, "GRANARY_CONF=junk:true"},
	{"MALLOC_CHECK_", []string{"glibc"}, alwaysChecked},
	{"glibc.malloc.arena_max", []string{"glibc"}, noArenas},
	{"glibc.malloc.arena_test", []string{"glibc"}, noArenas},
	{"glibc.malloc.trim_threshold", []string{"glibc"}, decay},
	{"glibc.malloc.top_pad", []string{"glibc"}, decay},
	{"glibc.malloc.mmap_threshold", []string{"glibc"}, ownPages},
	{"glibc.malloc.mmap_max", []string{"glibc"}, ownPages},
	{"glibc.malloc.perturb", []string{"glibc"}, "GRANARY_CONF=junk:true"},
	{"glibc.malloc.check", []string{"glibc"}, alwaysChecked},
	{"glibc.malloc.tcache_count", []string{"glibc"}, "GRANARY_CONF=cache_bytes:BYTES"},
	{"glibc.malloc.tcache_max", []string{"glibc"}, "GRANARY_CONF=cache_max:BYTES"},
	{"glibc.malloc.hugetlb", []string{"glibc"}, "GRANARY_CONF=huge_pages:always"},
	{"TCMALLOC_RELEASE_RATE", []string{"tcmalloc", inspect.Granary}, ""},
	{"TCMALLOC_AGGRESSIVE_DECOMMIT", []string{"tcmalloc", inspect.Granary}, ""},
	{"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", []string{"tcmalloc", inspect.Granary}, ""},
	{"MIMALLOC_PURGE_DELAY", []string{"mimalloc"}, decay},
}

// ofOthers finds settings for another allocator than the one that runs, and options it does not know.
func ofOthers(w World, allocator string, environ []string) []Finding {
	var out []Finding
	for _, s := range settings {
		value := setting(environ, s.variable)
		if value == "" {
			continue
		}
		if !contains(s.readBy, allocator) {
			out = append(out, Finding{Severity: Warning, What: fmt.Sprintf("%s is set, but %s does not read it", s.variable, allocator),
				Remedy: remedy(s.variable, allocator, s.instead)})
		} else if s.variable == "GRANARY_CONF" && w.Options != nil {
			for _, wrong := range w.Options(value) {
				out = append(out, Finding{Severity: Problem, What: "GRANARY_CONF: " + wrong, Remedy: "correct it; docs/reference/options.md lists the options"})
			}
		}
	}
	return out
}

// setting is the value of a variable, or of one part of GLIBC_TUNABLES.
func setting(environ []string, name string) string {
	if !strings.HasPrefix(name, "glibc.") {
		return variable(environ, name)
	}
	for part := range strings.SplitSeq(variable(environ, tunables), ":") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

func contains(list []string, word string) bool {
	return strings.Contains(" "+strings.Join(list, " ")+" ", " "+word+" ")
}

func remedy(variable, allocator, instead string) string {
	switch {
	case variable == "GRANARY_CONF":
		return "run the program under Granary: `granary run -- CMD`"
	case allocator == inspect.Granary:
		return "set instead: " + instead
	case strings.HasPrefix(variable, "glibc."):
		return "remove " + variable + " from " + tunables
	}
	return "remove " + variable
}

// OptionsOf returns a check of settings against the options that a library knows; nil if it cannot
// be read.
func OptionsOf(library string) func(setting string) []string {
	l, err := inspect.OpenLibrary(library)
	if err != nil {
		return nil
	}
	return func(setting string) []string { return options.Wrong(l.Options, setting) }
}
