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
