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
# musl does not register restartable sequences, and unmaps the stack of a detached thread before it has ended.
cat >"$work/threads.c" <<'C'
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "granary/stats.h"
enum { kThreads = 64, kDetached = 2000 };
static pthread_barrier_t all;
static atomic_int ended, failed;
static void allocate(void) {
  for (int i = 0; i < 2000; ++i) {
    size_t size = 16 + i % 500;
    char *p = malloc(size);
    memset(p, i, size);
    if (p[size - 1] != (char)i) ++failed;
    free(p);
  }
}
static void *together(void *unused) {
  allocate();
  pthread_barrier_wait(&all);
  return unused;
}
static void *alone(void *unused) {
  allocate();
  ++ended;
  return unused;
}
int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&all, NULL, kThreads);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, together, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < kDetached; ++i) {
    if (pthread_create(&threads[0], &detached, alone, NULL) != 0) ++ended;
  }
  while (ended < kDetached) sched_yield();
  usleep(100000); /* the last ones end */
  uint64_t caches = 0;
  if (failed != 0 || granary_stat("caches", &caches) != 0) return 1;
  return caches <= (uint64_t)sysconf(_SC_NPROCESSORS_CONF) ? 0 : 2;
}
C
musl-gcc -O2 -fno-builtin -Icore/include "$work/threads.c" -static "$lib/granary.o" -o "$work/threads"
"$work/threads"
musl-gcc -O2 -fno-builtin -Icore/include "$work/threads.c" -o "$work/threads" -L"$lib" -Wl,--no-as-needed -lgranary -Wl,-rpath,"$lib"
"$work/threads"
echo "musl: one cache for each CPU, threads that end by themselves: ok"
