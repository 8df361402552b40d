package doctor

import (
	"fmt"
	"strings"

	"granary/tool/internal/allocators"
)

// settings are the variables that only some allocators read.
var settings = []struct {
	variable string
	readBy   []string
	instead  string // what to set for Granary
}{
	{"GRANARY_CONF", []string{allocators.Ours}, ""},
	{"MALLOC_CONF", []string{"jemalloc", allocators.Ours}, "the same options in GRANARY_CONF"},
	{"MALLOC_ARENA_MAX", []string{"glibc"}, "nothing: Granary has a cache for each CPU and no arenas"},
	{"MALLOC_TRIM_THRESHOLD_", []string{"glibc"}, "GRANARY_CONF=dirty_decay_ms:MILLISECONDS"},
	{"MALLOC_MMAP_THRESHOLD_", []string{"glibc"}, "nothing: blocks above 1 MiB always have pages of their own"},
	{"TCMALLOC_RELEASE_RATE", []string{"tcmalloc"}, "GRANARY_CONF=dirty_decay_ms:MILLISECONDS"},
	{"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", []string{"tcmalloc"}, "nothing: the caches belong to CPUs"},
	{"MIMALLOC_PURGE_DELAY", []string{"mimalloc"}, "GRANARY_CONF=dirty_decay_ms:MILLISECONDS"},
}

// options finds settings for another allocator than the one that runs, and options it does not know.
func options(w World, allocator string, environ []string) []Finding {
	var out []Finding
	for _, s := range settings {
		value := variable(environ, s.variable)
		if value == "" {
			continue
		}
		if !contains(s.readBy, allocator) {
			out = append(out, Finding{Severity: Warning, What: fmt.Sprintf("%s is set, but %s does not read it", s.variable, allocator), Remedy: remedy(s.variable, allocator, s.instead)})
		} else if s.variable == "GRANARY_CONF" && w.Options != nil {
			for _, wrong := range w.Options(value) {
				out = append(out, Finding{Severity: Problem, What: "GRANARY_CONF: " + wrong, Remedy: "correct it; docs/reference/options.md lists the options"})
			}
		}
	}
	return out
}

func contains(list []string, word string) bool {
	return strings.Contains(" "+strings.Join(list, " ")+" ", " "+word+" ")
}

func remedy(variable, allocator, instead string) string {
	switch {
	case variable == "GRANARY_CONF":
		return "run the program under Granary: `granary run -- CMD`"
	case allocator == allocators.Ours:
		return "set instead: " + instead
	}
	return "remove " + variable
}
