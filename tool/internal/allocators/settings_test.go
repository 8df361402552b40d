package allocators

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestSettingsAreWrittenAsEachAllocatorReadsThem(t *testing.T) {
	f := machine(t)
	lib := filepath.Join(f.PeersDir, "tcg.so")
	for item, want := range map[string][]string{
		"granary:dirty_decay_ms=100":                  {"GRANARY_CONF=dirty_decay_ms:100"},
		"granary:dirty_decay_ms=100+thp=off":          {"GRANARY_CONF=dirty_decay_ms:100,thp:off"},
		"jemalloc:background_thread=true+narenas=1":   {"MALLOC_CONF=background_thread:true,narenas:1"},
		"new-jemalloc:narenas=1":                      {"MALLOC_CONF=narenas:1"},
		"glibc:MALLOC_ARENA_MAX=2":                    {"MALLOC_ARENA_MAX=2"},
		"glibc:arena_max=2+tcache_count=0":            {"GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0"},
		"tcg:A=3":                                     {"A=1", "B=2", "A=3"},
		"my-mimalloc=" + lib + ",my-mimalloc:thp=1":   {"MIMALLOC_THP=1"},
		"mine=" + lib + ",OLD=0,mine:NEW=1":           {"OLD=0", "NEW=1"},
		"x-tcmalloc=" + lib + ",x-tcmalloc:release=2": {"TCMALLOC_RELEASE=2"},
	} {
		selected, _, err := f.Select(item)
		if err != nil {
			t.Errorf("%s: %v", item, err)
			continue
		}
		last := selected[len(selected)-1]
		if !reflect.DeepEqual(last.Env, want) || last.SHA256 == "" || !strings.HasSuffix(item, last.Name) {
			t.Errorf("%s: %q as %s, want %q", item, last.Env, last.Name, want)
		}
	}
	if c, _, _ := f.Select("granary:a=1"); !c[0].IsGranary() {
		t.Error("Granary with settings is not called Granary")
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for item, message := range map[string]string{
		"nobody:a=1":                    `there is no allocator "nobody"`,
		"granary:a=1+b":                 `"b" is no setting; write granary:SETTING=VALUE`,
		"snmalloc:fast=1":               "it is not known how snmalloc reads the setting fast",
		"mimalloc:a=1":                  "install the package libmimalloc2.0",
		"glibc:MALLOC_TRIM_THRESHOLD=1": "glibc reads no setting MALLOC_TRIM_THRESHOLD, and would not say so; choose from MALLOC_ARENA_MAX",
		"glibc:arenas=1":                "glibc reads no setting arenas, and would not say so; choose from arena_max",
	} {
		if _, _, err := machine(t).Select(item); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", item, err)
		}
	}
}

func TestVariantsOfWhatIsThere(t *testing.T) {
	f := machine(t)
	selected, _, err := f.Select("glibc,granary")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(AddVariants(selected)); got != "glibc granary glibc:MALLOC_ARENA_MAX=2 granary:dirty_decay_ms=100" {
		t.Errorf("%s", got)
	}
}
