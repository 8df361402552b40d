#!/usr/bin/env bash
# smoke_musl.sh LIBDIR: a C program built by musl-gcc runs with the library preloaded, linked and
# linked statically.
set -euo pipefail
lib=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in libgranary.so granary.o; do
  [ -e "$lib/$file" ] || {
    echo "smoke_musl.sh: $lib/$file is missing; build it with make musl" >&2
    exit 1
  }
done
compile=(musl-gcc -O2 -fno-builtin core/test/smoke/smoke.c)

"${compile[@]}" -o "$work/plain"
LD_PRELOAD=$lib/libgranary.so "$work/plain"
echo "musl: preloaded: ok"
"${compile[@]}" -o "$work/shared" -L"$lib" -Wl,--no-as-needed -lgranary -Wl,-rpath,"$lib"
"$work/shared"
echo "musl: linked: ok"
"${compile[@]}" -o "$work/static" -static "$lib/granary.o"
"$work/static"
echo "musl: static: ok"
# The table of frames is not in such a program, and is made.
cat >"$work/stacks.c" <<'C'
#include <stdlib.h>
#include "granary/profile.h"
__attribute__((noinline)) static void *inner(void) { return malloc(5000); }
__attribute__((noinline)) static void *outer(void) {
  void *p = inner();
  __asm__ volatile("" : "+r"(p));
  return p;
}
int main(void) {
  struct granary_profile_stack s = {0};
  if (granary_profile_start(1, 1) != 0 || outer() == NULL) return 2;
  return granary_profile_stack_at(0, &s, sizeof s) == 0 && s.depth >= 4 ? 0 : 1;
}
C
musl-gcc -O2 -fno-builtin -fno-optimize-sibling-calls -Icore/include "$work/stacks.c" -static "$lib/granary.o" -o "$work/stacks"
"$work/stacks"
echo "musl: stacks of a static program: ok"
