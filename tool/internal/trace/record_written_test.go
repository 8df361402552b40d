package trace

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// Writes to a part of large objects, which are allocated again after others of their size were written whole.
const writesAPart = `
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
static void* volatile keep;
static void use(void* p, size_t bytes) { memset(p, 1, bytes); keep = p; }
int main(void) {
  for (int i = 0; i < 20; ++i) {
    void* whole = malloc(1000001); use(whole, 1000001); free(whole);
    void* part = malloc(1000002); use(part, 100000); free(part);
    void* none = malloc(1000003); keep = none; free(none);
    void* aligned = memalign(4096, 1000004); use(aligned, 300000); free(aligned);
    void* block = malloc(32760); use(block, 5000); free(block);
    void* small = malloc(16000); use(small, 16000); free(small);
    void* moved = malloc(1000005); use(moved, 200000); moved = realloc(moved, 2000006); use((char*)moved + 1000000, 400000); free(moved);
    char* zeroed = calloc(1, 40001); if (zeroed[5] != 0 || zeroed[40000] != 0) return 1; use(zeroed, 40001); free(zeroed);
  }
  return 0;
}`

// writtenBySize is how much of the objects of a size was written at least and at most, by the ends that say so.
func writtenBySize(t *testing.T, path string) map[uint64][2]uint64 {
	t.Helper()
	out := map[uint64][2]uint64{}
	for e := range open(t, path).Events() {
		if !e.Ends() || e.Old.Written == 0 {
			continue
		}
		n, seen := out[e.Old.Size], e.Old.Written-1
		if n[1] == 0 {
			n[0] = seen
		}
		out[e.Old.Size] = [2]uint64{min(n[0], seen), max(n[1], seen)}
	}
	return out
}

func TestTheWrittenPartOfLargeObjectsIsRecorded(t *testing.T) {
	program := testkit.Compile(t, writesAPart, "-fno-builtin", "-w")
	for _, below := range []string{"", testkit.Library(t)} {
		r := recordTrace(t, []string{"LD_PRELOAD=" + below}, "--written", program)
		if r.code != 0 {
			t.Fatalf("code %d: %s", r.code, r.said)
		}
		found := writtenBySize(t, r.out)
		page := uint64(os.Getpagesize())
		for size, want := range map[uint64]uint64{1000001: 1000001, 1000002: 100000, 1000003: 0, 1000004: 300000, 1000005: 200000, 40001: 40001, 32760: 5000} {
			// The first and the last page count as written if the object has a part of them only, which allocators round up.
			if n, ok := found[size]; !ok || n[0]+page < want || n[1] > want+size/4+2*page {
				t.Errorf("below %q: of %d bytes %d were written, the trace has %d", below, size, want, n)
			}
		}
		if n := found[2000006]; n[0] < 599000 || n[1] > 1500000 {
			t.Errorf("below %q: of the moved object, the trace has %d", below, n)
		}
		if n, ok := found[16000]; ok {
			t.Errorf("a small object has %d", n)
		}
		if got := summary(t, r.out); got.Findings.UnknownFrees != 0 || !got.Header.Written {
			t.Errorf("%+v", got)
		}
	}
	r := recordTrace(t, nil, program)
	if len(writtenBySize(t, r.out)) != 0 || open(t, r.out).Header.Written {
		t.Error("the written part was recorded without --written")
	}
}

// partlyWritten is a recording of objects of which 100 KiB, nothing and an unknown part were written.
func partlyWritten() []byte {
	c := chunk(0, 1000).event(1, 0, 0x10000, 1<<20).event(1, 0, 0x200000, 1<<20).event(1, 0, 0x400000, 1<<20)
	const says = recordOther | otherWritten<<kindBits
	c.data = append(c.data, says, 100)
	c.event(4, 1, 0x10000)
	c.data = append(c.data, says, 0)
	c.event(5, 1, 0x200000).event(6, 0, 0x600000, 2<<20).event(4, 1, 0x400000)
	data := file(c)
	binary.LittleEndian.PutUint32(data[8:], versionWithWritten)
	return data
}

func TestThePackedTraceKeepsTheWrittenPart(t *testing.T) {
	recorded := parse(t, partlyWritten())
	for name, tr := range map[string]*Trace{"recording": recorded, "packed": parse(t, pack(t, recorded))} {
		var ends []uint64
		for e := range tr.Events() {
			if e.Ends() {
				ends = append(ends, e.Old.Written)
			}
		}
		if !slices.Equal(ends, []uint64{100<<10 + 1, 1, 0}) || !tr.Header.Written || len(tr.Findings.Damage) > 0 {
			t.Errorf("%s: %v, %+v", name, ends, tr.Findings)
		}
	}
}

func TestShareOfAnObject(t *testing.T) {
	for _, c := range []struct {
		written, size uint64
		want          uint16
	}{{0, 100, 0}, {1, 100, 1}, {101, 100, 65535}, {1 << 50, 100, 65535}, {51, 100, 32768}, {5, 0, 0}} {
		if got := share(c.written, c.size); got != c.want {
			t.Errorf("share(%d, %d) is %d, want %d", c.written, c.size, got, c.want)
		}
	}
}

// Holds 64 objects of 1 MiB, and writes 64 KiB of each.
const holdsParts = `
#include <stdlib.h>
#include <string.h>
int main(void) {
  static char* held[64];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 64; ++i) memset(held[i] = malloc(1 << 20), 1, 64 << 10);
    for (int i = 0; i < 64; ++i) free(held[i]);
  }
  return 0;
}`

func TestAReplayWritesAsMuchAsTheProgram(t *testing.T) {
	program, replay := testkit.Compile(t, holdsParts, "-fno-builtin", "-w"), testkit.BenchProgram(t, "replay")
	peak := func(args ...string) float64 {
		r := recordTrace(t, nil, append(args, program)...)
		out, err := exec.Command(replay, "plan="+planOf(t, r.out)).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		mebibytes := 0.0
		for line := range strings.Lines(string(out)) {
			_, _ = fmt.Sscanf(line, "metric RSS_peak %f", &mebibytes) // other lines do not match
		}
		return mebibytes
	}
	if whole, part := peak(), peak("--written"); whole < 64 || part < 4 || part > 16 {
		t.Errorf("peak RSS of the replay: %.1f MiB, and %.1f MiB with the written parts", whole, part)
	}
}
