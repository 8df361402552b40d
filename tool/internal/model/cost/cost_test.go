package cost

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// real are the allocators of this machine that can be preloaded.
func real(t *testing.T) map[string]Allocator {
	t.Helper()
	out := map[string]Allocator{"": Glibc}
	for pattern, a := range map[string]Allocator{
		"/usr/lib/*/libjemalloc.so.2": Jemalloc, "/usr/lib/*/libtcmalloc_minimal.so.4": TCMalloc, "/usr/lib/*/libmimalloc.so.2.0": Mimalloc,
	} {
		paths, _ := filepath.Glob(pattern) // well formed
		for _, path := range paths {
			out[path] = a
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		path := filepath.Join(home, ".local/share/granary/peers/lib/tcmalloc.so") // where `granary peers install` puts it
		if _, err := os.Stat(path); err == nil {
			out[path] = GoogleTCMalloc
		}
	}
	library := testkit.Library(t)
	l, err := inspect.OpenLibrary(library)
	if err != nil {
		t.Fatal(err)
	}
	out[library] = Granary(l.Classes)
	return out
}

func filler(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fill")
	if out, err := exec.Command("cc", "-O2", "-fno-builtin", "-o", program, "testdata/fill.c").CombinedOutput(); err != nil {
		t.Skipf("cc: %v\n%s", err, out)
	}
	return program
}

// filled lets the program allocate the heap in small pages: the ends of huge pages are not part of the model.
func filled(t *testing.T, program, preload string, h Heap) Sum {
	t.Helper()
	return filledWith(t, program, preload, "GRANARY_CONF=huge_pages:never", h)
}

func filledWith(t *testing.T, program, preload, variable string, h Heap) Sum {
	t.Helper()
	var in bytes.Buffer
	for _, size := range slices.Sorted(maps.Keys(h)) { // in another order, glibc extends some blocks by small free remainders
		fmt.Fprintf(&in, "%d %.0f\n", size, h[size])
	}
	cmd := exec.Command(program)
	// The tunable leaves restartable sequences to Google's TCMalloc.
	cmd.Stdin, cmd.Env = &in, append(os.Environ(), "LD_PRELOAD="+preload, "GLIBC_TUNABLES=glibc.pthread.rseq=0", variable)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", preload, err)
	}
	var s Sum
	if _, err := fmt.Sscan(string(out), &s.Requested, &s.Usable, &s.Resident); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUsableSizesAreThoseOfTheAllocators(t *testing.T) {
	program := filler(t)
	for preload, a := range real(t) {
		h := Heap{}
		for size := uint64(0); size < 2000; size++ {
			h.Add(size, 1)
		}
		for size := 2000.0; size < 3<<20; size *= 1.01 {
			h.Add(uint64(size), 1)
		}
		want, got := filled(t, program, preload, h), a.Of(h)
		if got.Usable == want.Usable {
			continue
		}
		for size, count := range h { // find the first that differs
			one := Heap{size: count}
			if a, b := a.Of(one).Usable, filled(t, program, preload, one).Usable; a != b {
				t.Fatalf("%s: malloc(%d) has %.0f usable bytes, said is %.0f", filepath.Base(preload), size, b, a)
			}
		}
		t.Errorf("%s: usable bytes of all sizes are %.0f, said is %.0f", preload, want.Usable, got.Usable)
	}
}

func TestResidentBytesAreThoseOfTheAllocators(t *testing.T) {
	program := filler(t)
	r := rand.New(rand.NewPCG(1, 1))
	mixed := Heap{}
	for range 40 {
		mixed.Add(uint64(8+r.IntN(2000)), float64(500+r.IntN(3000)))
	}
	heaps := map[string]Heap{
		"numbers in a radix tree": {8: 1_000_000, 96: 111_111},
		"uuids in a radix tree":   {8: 300_000, 40: 300_000, 24: 80_000, 32: 20_000},
		"sorted set":              {40: 225_000, 56: 56_000, 72: 14_000, 88: 4_700, 24: 300_000, 12: 300_000},
		"values of 100 bytes":     {120: 250_000, 24: 250_000, 15: 250_000},
		"values of 1,000 bytes":   {1004: 30_000, 16: 30_000, 24: 30_000, 15: 30_000},
		"values of 5,000 bytes":   {5006: 8_000},
		"values of 20,000 bytes":  {20_006: 2_500},
		"values of 300,000 bytes": {300_010: 160},
		"a mix":                   mixed,
	}
	for preload, a := range real(t) {
		for name, h := range heaps {
			if a.Name == "granary" {
				requireAtMostTwoHugePages(t, program, preload, name, a.Of(h), h)
			}
			got, want := a.Of(h), filled(t, program, preload, h)
			if a.Name == TCMalloc.Name && want.Resident > 1.03*got.Resident {
				want.Resident -= 2 << 20 // its heap spans two leaves of the page map
			}
			off := got.Resident/want.Resident - 1
			t.Logf("%-10s %-24s %+.2f %%", a.Name, name, 100*off)
			if math.Abs(off) > 0.03 || got.Requested != want.Requested || got.Usable != want.Usable {
				t.Errorf("%s, %s: %.0f bytes are resident, said is %.0f; requested %.0f, %.0f; usable %.0f, %.0f", a.Name, name,
					want.Resident, got.Resident, want.Requested, got.Requested, want.Usable, got.Usable)
			}
		}
	}
}

// A heap that grows fast from 32 MiB on ends in a huge page for slabs and one for blocks.
func requireAtMostTwoHugePages(t *testing.T, program, preload, name string, model Sum, h Heap) {
	t.Helper()
	if got := filledWith(t, program, preload, "GRANARY_CONF=", h); got.Resident > 1.03*model.Resident+2*(2<<20) {
		t.Errorf("%s with huge pages: %.0f bytes are resident, said is %.0f", name, got.Resident, model.Resident)
	}
}
