package allocators

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// folder makes files and returns their folder, free of links.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func machine(t *testing.T) Finder {
	libs := folder(t, map[string]string{"libc.so.6": "c", "libjemalloc.so.2": "j", "libgranary.so": "g"})
	peers := folder(t, map[string]string{"snmalloc.so": "s", "jemalloc.so": "newer", "tcg.so": "t", "tcg.env": "A=1\nB=2\n"})
	return Finder{
		LibraryDirs: []string{"/nowhere", libs}, PeersDir: peers,
		FindGranary: func() (string, error) { return filepath.Join(libs, "libgranary.so"), nil },
	}
}

func names(list []Allocator) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

func TestSelectAllFindsPackagesPeersAndGranary(t *testing.T) {
	selected, notes, err := machine(t).Select("")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(selected); got != "glibc jemalloc new-jemalloc snmalloc tcg granary" {
		t.Errorf("selected %s", got)
	}
	if len(notes) != 2 || !strings.Contains(notes[0], "install the package libtcmalloc-minimal4") {
		t.Errorf("notes = %q", notes)
	}
	if env := selected[4].Env; !reflect.DeepEqual(env, []string{"A=1", "B=2"}) {
		t.Errorf("variables of tcg: %q", env)
	}
}

func TestSelectByList(t *testing.T) {
	f := machine(t)
	lib := filepath.Join(f.PeersDir, "tcg.so")
	for _, c := range []struct{ list, want, message string }{
		{"granary,glibc", "granary glibc", ""},
		{"mine=" + lib + ",OPT=1,NEXT=2,glibc", "mine glibc", ""},
		{"nobody", "", "choose from glibc, jemalloc"},
		{"mimalloc", "", "install the package libmimalloc2.0"},
		{"x=/no/such.so", "", "the library of x"},
		{"glibc,glibc", "", "names glibc twice"},
	} {
		selected, _, err := f.Select(c.list)
		if names(selected) != c.want {
			t.Errorf("%s selects %q", c.list, names(selected))
		}
		if (err != nil) != (c.message != "") || err != nil && !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: error %v, want %q in it", c.list, err, c.message)
		}
	}
}

func TestVariablesBelongToTheAllocatorBefore(t *testing.T) {
	f := machine(t)
	lib := filepath.Join(f.PeersDir, "tcg.so")
	selected, _, err := f.Select("mine=" + lib + ",OPT=1")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"OPT=1", "LD_PRELOAD=" + lib}
	if got := selected[0].Variables(false); !reflect.DeepEqual(got, want) {
		t.Errorf("variables %q, want %q", got, want)
	}
	if selected[0].SHA256 == "" {
		t.Error("the measured bytes are not identified")
	}
}

func TestSystemAllocatorIsPreloadedOnRequestOnly(t *testing.T) {
	c := Allocator{Name: "glibc", Path: "/lib/libc.so.6", System: true}
	if got := c.Variables(false); len(got) != 0 {
		t.Errorf("variables %q", got)
	}
	if got := c.Variables(true); len(got) != 1 || got[0] != "LD_PRELOAD=/lib/libc.so.6" {
		t.Errorf("variables %q", got)
	}
}

func TestMissingGranaryIsANote(t *testing.T) {
	f := machine(t)
	f.FindGranary = func() (string, error) { return "", errors.New("build it") }
	selected, notes, err := f.Select("")
	if err != nil || strings.Contains(names(selected), " granary") || !strings.Contains(strings.Join(notes, "\n"), "granary is left out: build it") {
		t.Errorf("selected %s, notes %q, err %v", names(selected), notes, err)
	}
	if _, _, err := f.Select("granary"); err == nil || !strings.Contains(err.Error(), "build it") {
		t.Errorf("asked for by name: %v", err)
	}
}

func TestOurs(t *testing.T) {
	for name, want := range map[string]bool{"granary": true, "granary:thp=on": true, "granary2": false, "glibc": false} {
		if got := (Allocator{Name: name}).IsGranary(); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
