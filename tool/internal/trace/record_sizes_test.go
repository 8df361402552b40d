package trace

import (
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// Sizes on both sides of each length of a number.
func TestNumbersOfEveryLengthAreRecorded(t *testing.T) {
	const sizes = `
#include <stdlib.h>
static void* volatile keep;
int main(void) {
  for (int bits = 7; bits <= 35; bits += 7)
    for (size_t size = ((size_t)1 << bits) - 2; size <= ((size_t)1 << bits) + 1; ++size) { keep = malloc(size); free(keep); }
  return 0;
}`
	r := recordTrace(t, nil, testkit.Compile(t, sizes, "-fno-builtin"))
	s := summary(t, r.out)
	for bits := 7; bits <= 28; bits += 7 { // a machine may refuse the sizes of 32 GiB
		for size := uint64(1)<<bits - 2; size <= uint64(1)<<bits+1; size++ {
			if g := ofSize(s, size); g.Objects != 1 || g.AtEnd != 0 {
				t.Errorf("%d bytes: %+v", size, g)
			}
		}
	}
	if s.Findings.UnknownFrees != 0 {
		t.Errorf("%+v", s.Findings)
	}
}

// A realloc of an object that is not in the sample is not recorded either.
func TestSampleOfReallocs(t *testing.T) {
	const moves = `
#include <stdlib.h>
static void* keep[30000];
int main(void) {
  for (int i = 0; i < 30000; ++i) keep[i] = malloc(3001);
  for (int i = 0; i < 30000; ++i) keep[i] = realloc(keep[i], 6001);
  for (int i = 0; i < 30000; i += 2) keep[i] = realloc(keep[i], 0);
  for (int i = 1; i < 30000; i += 2) free(keep[i]);
  return 0;
}`
	s := summary(t, recordTrace(t, nil, "--sample", "10", testkit.Compile(t, moves, "-fno-builtin", "-w")).out)
	for size := range map[uint64]bool{3001: true, 6001: true} {
		if g := ofSize(s, size); g.Objects < 2000 || g.Objects > 4000 || g.AtEnd != 0 || s.Findings.UnknownFrees != 0 {
			t.Errorf("%+v of 30000 objects, %+v", g, s.Findings)
		}
	}
}

// Objects of one size, one beside the other: their hashes must not be near each other, or a sample holds none of them, or
// three times as many as it should.
func TestASampleOfNeighboursIsEven(t *testing.T) {
	const source = `
#include <stdlib.h>
static void* keep[30000];
int main(void) {
  static const int sizes[] = {24, 100, 136, 888, 1000};
  for (int s = 0; s < 5; ++s) {
    for (int i = 0; i < 30000; ++i) keep[i] = malloc(sizes[s]);
    for (int i = 0; i < 30000; ++i) free(keep[i]);
  }
  return 0;
}`
	program := testkit.Compile(t, source, "-fno-builtin")
	for range 6 { // at other addresses each time
		s := summary(t, recordTrace(t, nil, "--sample", "1000", program).out)
		for _, size := range []uint64{24, 100, 136, 888, 1000} {
			if n := ofSize(s, size).Objects; n < 15 || n > 45 {
				t.Errorf("%d of 30,000 objects of %d bytes are in a sample of one in 1000", n, size)
			}
		}
	}
}
