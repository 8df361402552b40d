package symbol

import (
	"context"
	"debug/elf"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

const source = `#include <stdlib.h>
namespace store {
struct Table { void* Grow(int n); };
inline __attribute__((always_inline)) void* Inner(int n) {
  return malloc(n + 1);
}
__attribute__((noinline)) void* Table::Grow(int n) {
  void* p = Inner(n);
  return p ? p : nullptr;
}
}
int main(int argc, char**) { store::Table t; return t.Grow(argc) == nullptr; }
`

// compile builds the program and returns its path.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("there is no g++ here")
	}
	dir := t.TempDir()
	code, program := filepath.Join(dir, "table.cc"), filepath.Join(dir, "table")
	if err := os.WriteFile(code, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O2", "-g", "-Wl,--build-id=sha1", "-o", program, code}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("g++: %v: %s", err, out)
	}
	return program
}

// callOf is a profile with one address: inside the call of malloc in Grow.
func callOf(t *testing.T, program string) *profile.Profile {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := &profile.Mapping{ID: 1, File: program, BuildID: BuildID(f)}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 { // as the kernel maps it
			m.Start, m.Offset = 0x555500000000, p.Off&^0xfff
			m.Limit = m.Start + (p.Off+p.Filesz-m.Offset+0xfff)&^0xfff
			symbols, err := f.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range symbols {
				if strings.Contains(s.Name, "Grow") {
					l := &profile.Location{ID: 1, Mapping: m, Address: m.Start + (s.Value + 8 - p.Vaddr + p.Off) - m.Offset}
					return &profile.Profile{Mapping: []*profile.Mapping{m}, Location: []*profile.Location{l}}
				}
			}
		}
	}
	t.Fatal("the program has no function Grow")
	return nil
}

func names(p *profile.Profile) (out []string) {
	for _, line := range p.Location[0].Line {
		out = append(out, line.Function.Name)
	}
	return out
}

func TestInlinedFunctionsAndLines(t *testing.T) {
	for _, flags := range [][]string{{"-gdwarf-5"}, {"-gdwarf-4"}, {"-gdwarf-5", "-no-pie"}, {"-gz"}} {
		p := callOf(t, compile(t, flags...))
		out := (&Finder{}).Symbolize(context.Background(), p)
		if got := names(p); out.Named != 1 || !slices.Equal(got, []string{"store::Inner", "store::Table::Grow"}) {
			t.Errorf("%v: named %v", flags, got)
			continue
		}
		inner, outer := p.Location[0].Line[0], p.Location[0].Line[1]
		if filepath.Base(inner.Function.Filename) != "table.cc" || inner.Line != 5 || outer.Line != 8 {
			t.Errorf("%v: lines %d of %s and %d, want 5 and 8", flags, inner.Line, inner.Function.Filename, outer.Line)
		}
	}
}

func objcopy(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v: %s", err, out)
	}
}

// stripped splits a program as distributions do, and returns the debug file.
func stripped(t *testing.T, program string) (debug string) {
	t.Helper()
	debug = program + ".debug"
	objcopy(t, "--only-keep-debug", program, debug)
	objcopy(t, "--strip-all", program)
	return debug
}

func TestDebugFileByBuildID(t *testing.T) {
	program := compile(t)
	p, gone := callOf(t, program), callOf(t, program)
	debug := stripped(t, program)
	if out := (&Finder{}).Symbolize(context.Background(), p); out.Named != 0 || len(out.Missing) != 1 {
		t.Fatalf("a stripped program was named: %+v", out)
	}
	id, dir := p.Mapping[0].BuildID, t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".build-id", id[:2]), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(debug, filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")); err != nil {
		t.Fatal(err)
	}
	want := []string{"store::Inner", "store::Table::Grow"}
	(&Finder{DebugDirs: []string{dir}}).Symbolize(context.Background(), p)
	if got := names(p); !slices.Equal(got, want) {
		t.Errorf("named %v", got)
	}
	// On another machine the program itself is not there.
	gone.Mapping[0].File = "/nowhere/table"
	(&Finder{DebugDirs: []string{dir}}).Symbolize(context.Background(), gone)
	if got := names(gone); !slices.Equal(got, want) {
		t.Errorf("without the program: named %v", got)
	}
}

func TestDebuginfodServerIsAskedOnce(t *testing.T) {
	program := compile(t)
	p, again := callOf(t, program), callOf(t, program)
	debug, err := os.ReadFile(stripped(t, program))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/buildid/"+p.Mapping[0].BuildID+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		if _, err := w.Write(debug); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	cache := t.TempDir()
	getenv := func(name string) string {
		return map[string]string{"DEBUGINFOD_URLS": server.URL + "/", "DEBUGINFOD_CACHE_PATH": cache}[name]
	}
	for _, p := range []*profile.Profile{p, again} {
		f := NewFinder(getenv)
		f.DebugDirs = nil
		f.Symbolize(context.Background(), p)
		if got := names(p); len(got) != 2 {
			t.Errorf("named %v", got)
		}
	}
	// A file is not reported as lacking symbols if some of its functions were named.
	p.Location = append(p.Location, &profile.Location{ID: 2, Mapping: p.Mapping[0], Address: p.Mapping[0].Limit - 1})
	if out := (&Finder{}).Symbolize(context.Background(), p); len(out.Missing) > 0 || !p.Mapping[0].HasFunctions {
		t.Errorf("named before, it says %v", out.Missing)
	}
	if asked != 1 {
		t.Errorf("the server was asked %d times", asked)
	}
}

// A file that was replaced since has another build id; its symbols would be wrong.
func TestAnotherBuildIsNotUsed(t *testing.T) {
	p := callOf(t, compile(t))
	p.Mapping[0].BuildID = strings.Repeat("ab", 20)
	if out := (&Finder{}).Symbolize(context.Background(), p); out.Named != 0 {
		t.Errorf("named %v", names(p))
	}
}

func TestJITMap(t *testing.T) {
	m := ParseJITMap("1000 10 old\nbad line\n1000 10 new one\n0x2000 8 py::f:/a.py\nffffffffffffffff ff over\n")
	for address, want := range map[uint64]string{0x1000: "new one", 0x100f: "new one", 0x1010: "", 0x2007: "f", 0xfff: ""} {
		got := ""
		if frames := m.frames(address); len(frames) > 0 {
			got = frames[0].Function
		}
		if got != want {
			t.Errorf("%#x is %q, want %q", address, got, want)
		}
	}
}

func TestDemangle(t *testing.T) {
	for linkage, want := range map[string]string{
		"_ZN5store5Table4GrowEi": "store::Table::Grow", "main": "main",
		"_RNvCskwGfYPst2Cb_3foo16example_function": "foo::example_function",
	} {
		if got := Demangle(linkage); got != want {
			t.Errorf("%s is %q, want %q", linkage, got, want)
		}
	}
}

// Truncated and flipped files must be refused or passed over, never crash.
func FuzzObject(f *testing.F) {
	exe, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	head, err := os.ReadFile(exe)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head[:min(len(head), 1<<12)], uint64(0x1000))
	f.Fuzz(func(t *testing.T, data []byte, address uint64) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		m := &profile.Mapping{ID: 1, Start: 0, Limit: 1 << 40, File: path}
		p := &profile.Profile{Mapping: []*profile.Mapping{m}, Location: []*profile.Location{{ID: 1, Mapping: m, Address: address}}}
		(&Finder{}).Symbolize(context.Background(), p)
	})
}
