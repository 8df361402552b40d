package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/profile"

	pprof "github.com/google/pprof/profile"
)

// cpuProfile is of one run: samples of two milliseconds by function.
func cpuProfile(run string, samples map[string]int64) *pprof.Profile {
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 2e6, Comments: []string{result.CPURun + run},
	}
	for name, n := range samples {
		f := &pprof.Function{ID: uint64(len(p.Function) + 1), Name: name}
		l := &pprof.Location{ID: f.ID, Line: []pprof.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &pprof.Sample{Location: []*pprof.Location{l}, Value: []int64{n, n * 2e6}})
	}
	return p
}

func TestCPUTimeIsARunAndByFunction(t *testing.T) {
	dir, r := t.TempDir(), example()
	for allocator, runs := range map[string][]map[string]int64{
		"glibc":    {{"_int_malloc": 200, "work": 300}, {"_int_malloc": 400, "work": 300}},
		"granary":  {{"malloc": 50, "work": 310}},
		"jemalloc": {{"work": profile.FewestSamples - 1}},
	} {
		for i, samples := range runs {
			if err := result.AddCPU(dir, allocator, cpuProfile(string(rune('a'+i)), samples)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cpu, err := ReadCPU(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"work", "600 ms  50.0 %", "620 ms  86.1 %"}, {"_int_malloc", "600 ms  50.0 %", "0 ms  0.0 %"}, {"malloc", "0 ms  0.0 %", "100 ms  13.9 %"},
		{"0 functions more", "0 ms  0.0 %", "0 ms  0.0 %"}, {"all", "1200 ms  100.0 %", "720 ms  100.0 %"},
	}
	if !slices.EqualFunc(cpu.Rows, want, slices.Equal) || !slices.Equal(cpu.Allocators, []string{"glibc", "granary"}) {
		t.Errorf("%q under %q", cpu.Rows, cpu.Allocators)
	}
	if len(cpu.Remarks) != 1 || !strings.HasPrefix(cpu.Remarks[0], "jemalloc: 19 samples, too few") {
		t.Errorf("remarks %q", cpu.Remarks)
	}
	if err := WriteFolder(dir, r, Goals[0], nil); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("glibc: 1.20 s of CPU time a run")) || !bytes.Contains(page, []byte("granary: 0.72 s of CPU time a run")) {
		t.Errorf("the page has no pair of flame graphs: %v", err)
	}
	for _, root := range []string{"<title>all: 1.2 s", "<title>all: 0.72 s"} {
		if !bytes.Contains(page, []byte(root)) {
			t.Errorf("no frame %q: the graphs are not of one run", root)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "cpu", "granary.svg")); err != nil || !bytes.Contains(svg, []byte("<title>malloc: ")) {
		t.Errorf("the flame graph as a file: %v", err)
	}
	if cpu, err := ReadCPU(t.TempDir(), r); cpu != nil || err != nil {
		t.Errorf("CPU time from nothing: %+v, %v", cpu, err)
	}
}
