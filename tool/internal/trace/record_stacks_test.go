package trace

import (
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// Each of two functions allocates, one of them in many threads and by realloc.
const stacks = `
#include <pthread.h>
#include <stdlib.h>
static void* volatile keep[40];
__attribute__((noipa)) void* Leaf(size_t n) { void* p = malloc(n); return p; }
__attribute__((noipa)) void* Growing(void* p) { p = realloc(p, 7500); return p; }
__attribute__((noipa)) void* Loaded(void) { void* p = Leaf(7001); return p; }
static void* Thread(void* i) { keep[(size_t)i] = Growing(Leaf(7100)); return 0; }
int main(void) {
  pthread_t threads[30];
  for (int i = 0; i < 5; ++i) keep[i] = Loaded();
  for (size_t i = 0; i < 30; ++i) pthread_create(&threads[i], 0, Thread, (void*)(i + 5));
  for (int i = 0; i < 30; ++i) pthread_join(threads[i], 0);
  free(keep[0]);
  return 0;
}`

// byStack are the groups whose stacks begin so, added up.
func byStack(s Summary, prefix string) (sum Group) {
	for _, g := range s.ByStack {
		if strings.HasPrefix(s.Header.StackOf(g.Stack, 10), prefix) {
			sum.Objects += g.Objects
			sum.Bytes += g.Bytes
			sum.AtEnd += g.AtEnd
		}
	}
	return sum
}

func TestStacksOfARealProgram(t *testing.T) {
	program := testkit.Compile(t, stacks, "-O1", "-pthread")
	for name, args := range map[string][]string{"packed": nil, "raw": {"--raw"}} {
		r := recordTrace(t, nil, append(args, "--stacks", "--", program)...)
		if r.code != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		s := summary(t, r.out)
		loaded, thread, moved := byStack(s, "Leaf < Loaded < main"), byStack(s, "Leaf < Thread"), byStack(s, "Growing < Thread")
		if loaded.Objects != 5 || loaded.AtEnd != 4 || thread.Bytes != 30*7100 || thread.AtEnd != 0 || moved.Bytes != 30*7500 || moved.AtEnd != 30 {
			t.Errorf("%s: %+v\n%+v\n%+v\n%v %v", name, loaded, thread, moved, s.Header.Functions, s.Header.Stacks)
		}
	}
	r := recordTrace(t, nil, "--stacks", "--anonymous", "--", program)
	s := summary(t, r.out)
	if len(s.Header.Stacks) < 3 || strings.Contains(strings.Join(s.Header.Functions, " "), "Leaf") || byStack(s, "function ").Objects == 0 {
		t.Errorf("%v %v", s.Header.Functions, s.Header.Stacks)
	}
	if s := summary(t, recordTrace(t, nil, "--", program).out); len(s.Header.Stacks) != 0 || len(s.ByStack) != 0 {
		t.Errorf("stacks without --stacks: %v", s.Header.Stacks)
	}
}
