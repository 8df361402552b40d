package trace

import (
	"testing"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// The recorder looks for malloc_usable_size before it has an allocator below, and the resolver of this one allocates.
const allocatesEarly = `
#include <stdlib.h>
#include <string.h>
void* early[200];
static size_t Usable(void* p) { return p != 0; }
static size_t (*Resolve(void))(void*) {
  for (int i = 0; i < 200; ++i) early[i] = strcpy(malloc(201), "early");
  return Usable;
}
size_t malloc_usable_size(void*) __attribute__((ifunc("Resolve")));`

const freesEarly = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void _ZdlPv(void*);
static void* keep[30000];
int main(void) {
  void** early = dlsym(RTLD_DEFAULT, "early");
  for (int i = 0; i < 30000; ++i) keep[i] = malloc(3001);
  for (int i = 0; i < 30000; ++i) free(keep[i]);
  for (int i = 0; i < 200; ++i) if (early[i] == 0 || strcmp(early[i], "early") != 0) return 1;
  for (int i = 0; i < 100; ++i) free(early[i]);
  for (int i = 100; i < 150; ++i) _ZdlPv(early[i]);
  for (int i = 150; i < 200; ++i) {
    char* moved = realloc(early[i], 8001);
    if (strcmp(moved, "early") != 0) return 2;
    free(moved);
  }
  return 3;
}`

// No allocator gets an object from before it was found, whether its address is in the sample or not.
func TestObjectsFromBeforeTheAllocator(t *testing.T) {
	below := testkit.Compile(t, allocatesEarly, "-shared", "-fPIC", "-fno-builtin", "-w")
	program := testkit.Compile(t, freesEarly, "-fno-builtin", "-w", "-Wl,--no-as-needed", "-lstdc++")
	for _, sample := range []string{"1", "10"} {
		r := recordTrace(t, []string{"LD_PRELOAD=" + below}, "--sample", sample, program)
		if r.code != 3 {
			t.Fatalf("--sample %s: exit code %d: %s", sample, r.code, r.said)
		}
		s := summary(t, r.out)
		early, moved := ofSize(s, 201), ofSize(s, 8001)
		if early.Objects != 0 || moved.AtEnd != 0 || sample == "1" && moved.Objects != 50 || s.Findings.UnknownFrees != 0 {
			t.Errorf("--sample %s: early %+v, moved %+v, %+v", sample, early, moved, s.Findings)
		}
		if g := ofSize(s, 3001); g.AtEnd != 0 || sample == "10" && (g.Objects < 2000 || g.Objects > 4000) {
			t.Errorf("--sample %s: %+v", sample, g)
		}
	}
}

// A request that no allocator serves gets what the operator or function below returns, and is not recorded.
func TestNullResults(t *testing.T) {
	program := testkit.Compile(t, `
#include <stdlib.h>
void* _ZnwmRKSt9nothrow_t(size_t, const void*); void* _Znwm(size_t); void _ZdlPv(void*);
void (*_ZSt15set_new_handlerPFvvE(void (*)(void)))(void);
static char nothrow; static int handled;
static void Handle(void) { if (++handled == 2) _ZSt15set_new_handlerPFvvE(0); }
int main(void) {
  const size_t huge = (size_t)-1 / 2 - 4096;
  for (int i = 0; i < 100; ++i) if (malloc(huge) != 0 || calloc(1, huge) != 0) return 1;
  _ZSt15set_new_handlerPFvvE(Handle);
  if (_ZnwmRKSt9nothrow_t(huge, &nothrow) != 0 || handled != 2) return 2;
  free(0);
  _ZdlPv(0);
  _ZdlPv(_Znwm(0));
  return 3;
}`, "-fno-builtin", "-w", "-Wl,--no-as-needed", "-lstdc++")
	for _, below := range []string{"", testkit.Library(t)} {
		for _, sample := range []string{"1", "10"} {
			r := recordTrace(t, []string{"LD_PRELOAD=" + below}, "--sample", sample, program)
			if r.code != 3 {
				t.Fatalf("below %q, --sample %s: exit code %d: %s", below, sample, r.code, r.said)
			}
			s := summary(t, r.out)
			if s.Peak.Bytes > 1<<20 || s.Findings.UnknownFrees != 0 {
				t.Errorf("below %q, --sample %s: %d bytes, %+v", below, sample, s.Peak.Bytes, s.Findings)
			}
		}
	}
}

// A program that finds the recorder's operators, and none below, gets malloc's memory.
func TestOperatorsWithoutALibraryOfThem(t *testing.T) {
	program := testkit.Compile(t, `
#include <stdint.h>
#include <stdlib.h>
#define WEAK __attribute__((weak))
WEAK void* _Znwm(size_t); WEAK void* _Znam(size_t); WEAK void _ZdlPv(void*); WEAK void _ZdaPvm(void*, size_t);
WEAK void* _ZnwmSt11align_val_t(size_t, size_t); WEAK void _ZdlPvSt11align_val_t(void*, size_t);
static void* keep[3000];
int main(void) {
  for (int i = 0; i < 1000; ++i) keep[i] = _Znwm(7201);
  for (int i = 1000; i < 2000; ++i) keep[i] = _Znam(7211);
  for (int i = 2000; i < 3000; ++i) {
    keep[i] = _ZnwmSt11align_val_t(7424, 256);
    if ((uintptr_t)keep[i] % 256 != 0) return 1;
  }
  for (int i = 0; i < 1000; ++i) _ZdlPv(keep[i]);
  for (int i = 1000; i < 2000; ++i) _ZdaPvm(keep[i], 7211);
  for (int i = 2000; i < 3000; ++i) _ZdlPvSt11align_val_t(keep[i], 256);
  return 3;
}`, "-fno-builtin", "-w", "-fPIE", "-pie")
	for _, sample := range []string{"1", "10"} {
		r := recordTrace(t, nil, "--sample", sample, program)
		if r.code != 3 {
			t.Fatalf("--sample %s: exit code %d: %s", sample, r.code, r.said)
		}
		s := summary(t, r.out)
		for _, size := range []uint64{7201, 7211, 7424} {
			g := ofSize(s, size)
			if sample == "1" && g.Objects != 1000 || g.Objects < 40 || g.Objects > 1000 || g.AtEnd != 0 || s.Findings.UnknownFrees != 0 {
				t.Errorf("--sample %s: size %d: %+v, %+v", sample, size, g, s.Findings)
			}
		}
	}
}
