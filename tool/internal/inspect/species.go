package inspect

import (
	"path/filepath"
	"regexp"
	"strings"
)

// A species identifies an allocator in a binary: by the name of its library, a
// symbol that only it has, or a string that it cannot do without.
type species struct {
	name    string
	library *regexp.Regexp // of the file's base name
	symbols []string       // suffixes, as builds prefix them: je_mallctl, _rjem_mallctl
	text    string         // for stripped static programs
	version *regexp.Regexp // its version, in the read-only data
}

var allSpecies = []species{
	{Granary, regexp.MustCompile(`^libgranary\b.*\.so`), []string{"granary_version"}, "GRANARY_CONF", nil},
	{"jemalloc", regexp.MustCompile(`^(lib)?jemalloc.*\.so`), []string{"mallctlbymib"}, "<jemalloc>: ", regexp.MustCompile(`\b(\d+\.\d+\.\d+)-\d+-g[0-9a-f]{40}\b`)},
	{"tcmalloc", regexp.MustCompile(`^(lib)?tcmalloc.*\.so`), []string{"tc_malloc_size", "MallocExtension_Internal_GetStatsInPbtxt", "TCMallocInternalMalloc"},
		"tcmalloc: large alloc ", regexp.MustCompile(`gperftools (\d+\.\d+(?:\.\d+)?)`)},
	{"mimalloc", regexp.MustCompile(`^(lib)?mimalloc.*\.so`), []string{"mi_malloc"}, "mimalloc: ", nil},
	{"snmalloc", regexp.MustCompile(`^(lib)?snmalloc.*\.so`), []string{"sn_rust_alloc", "__malloc_start_pointer"}, "snmalloc", nil},
	{"rpmalloc", regexp.MustCompile(`^(lib)?rpmalloc.*\.so`), []string{"rpmalloc"}, "", nil},
	{"hoard", regexp.MustCompile(`^libhoard.*\.so`), []string{"xxmalloc_usable_size"}, "", nil},
	{"scudo", regexp.MustCompile(`^libscudo.*\.so|^libclang_rt\.scudo`), []string{"__scudo_print_stats"}, "", nil},
	{"AddressSanitizer", regexp.MustCompile(`^lib(clang_rt\.)?asan.*\.so`), []string{"__asan_init"}, "", nil},
	{"musl", regexp.MustCompile(`^ld-musl-|^libc\.musl-|^libc\.so$`), []string{"__malloc_context", "__libc_malloc_impl"}, "", nil},
	{"glibc", regexp.MustCompile(`^libc\.so\.6$|^libc-2\.\d+\.so$`), []string{"__libc_mallopt"}, "malloc(): corrupted top size", regexp.MustCompile(`release version (\d+\.\d+)`)},
}

// fileVersion is the version in a name like libmimalloc.so.2.0.
var fileVersion = regexp.MustCompile(`\.so\.(\d[0-9.]*)$`)

func byLibrary(path string) (species, bool) {
	base := filepath.Base(strings.TrimSuffix(path, " (deleted)"))
	for _, s := range allSpecies {
		if s.library.MatchString(base) {
			return s, true
		}
	}
	return species{}, false
}

func bySymbols(symbols map[string]bool) (species, bool) {
	for _, s := range allSpecies {
		for _, suffix := range s.symbols {
			if symbols[suffix] {
				return s, true
			}
			for name := range symbols {
				if strings.HasSuffix(name, "_"+suffix) || strings.HasSuffix(name, "_rjem_"+suffix) {
					return s, true
				}
			}
		}
	}
	return species{}, false
}
