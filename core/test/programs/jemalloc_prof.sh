#!/bin/sh
# Programs that use jemalloc's profiling: the names of mallctl that begin with prof., thread.prof.
# and experimental.hooks.prof_, and the options prof_*.
set -eu
. "$(dirname "$0")/lib.inc"
need cc
cat >"$work/main.c" <<'C'
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

#define CHECK(x) \
  do { \
    if (!(x)) fprintf(stderr, "line %d: %s\n", __LINE__, #x), exit(9); \
  } while (0)
#define SET(name, value) mallctl(name, NULL, NULL, &(value), sizeof(value))
#define GET(name, value) mallctl(name, &(value), &(size_t){sizeof(value)}, NULL, 0)

static void *kept[4096];
// Compilers assume that malloc and free call no function of the program.
static volatile size_t sampled, freed, dumped, deepest;
static char dump_name[256];

static void OnSample(const void *p, size_t size, void **frames, unsigned depth, size_t usable) {
  CHECK(p != NULL && usable >= size && depth > 0 && frames[0] != NULL);
  ++sampled;
  if (depth > deepest) deepest = depth;
  free(malloc(10));  // a hook may allocate
}
static void OnFree(const void *p, size_t usable) {
  CHECK(p != NULL && usable > 0);
  ++freed;
}
static void OnDump(const char *path) {
  ++dumped;
  snprintf(dump_name, sizeof dump_name, "%s", path);
}

static void Fill(void) {
  for (int i = 0; i < 4096; ++i) kept[i] = malloc(100);
}
static void Empty(void) {
  for (int i = 0; i < 4096; ++i) free(kept[i]);
}
static __attribute__((noinline)) void FillDeep(int depth) {
  if (depth == 0) return Fill();
  FillDeep(depth - 1);
  __asm__ volatile("");
}

static void Hooks(void) {
  void (*sample)(const void *, size_t, void **, unsigned, size_t) = OnSample, (*none)(void) = NULL;
  void (*release)(const void *, size_t) = OnFree;
  void (*dump)(const char *) = OnDump;
  CHECK(SET("experimental.hooks.prof_sample", sample) == 0);
  CHECK(SET("experimental.hooks.prof_sample_free", release) == 0);
  CHECK(SET("experimental.hooks.prof_dump", dump) == 0);
  FillDeep(40);
  CHECK(sampled > 1000 && freed == 0);
  Empty();
  CHECK(freed == sampled);
  size_t bt_max = 0;
  unsigned wanted;
  CHECK(GET("opt.prof_bt_max", wanted) == 0);
  bt_max = wanted;
  CHECK(bt_max > 40 ? deepest > 40 : deepest == bt_max);
  CHECK(mallctl("prof.dump", NULL, NULL, NULL, 0) == 0);
  CHECK(dumped == 1 && strstr(dump_name, ".m0.heap") != NULL && access(dump_name, R_OK) == 0);
  const char *own = "own.heap";
  CHECK(SET("prof.dump", own) == 0 && dumped == 2 && strcmp(dump_name, own) == 0);
  CHECK(SET("experimental.hooks.prof_sample", none) == 0 && SET("experimental.hooks.prof_sample_free", none) == 0);
  const char *prefix = "other";
  CHECK(SET("prof.prefix", prefix) == 0);
  CHECK(mallctl("prof.dump", NULL, NULL, NULL, 0) == 0 && strncmp(dump_name, "other.", 6) == 0);
  const char *missing = "no/such/folder";
  CHECK(SET("prof.dump", missing) != 0);
  prefix = "";
  CHECK(SET("prof.prefix", prefix) == 0 && mallctl("prof.dump", NULL, NULL, NULL, 0) != 0);
  SET("experimental.hooks.prof_dump", none);
}

static size_t InFile(const char *name) {  // bytes in use, as its head tells
  char path[64], line[256];
  const char *own = path;
  size_t objects = 0, bytes = 0;
  snprintf(path, sizeof path, "%s", name);
  CHECK(SET("prof.dump", own) == 0);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, "heap_v2/", 8) == 0);
  CHECK(fgets(line, sizeof line, file) != NULL && sscanf(line, " t*: %zu: %zu", &objects, &bytes) == 2);
  fclose(file);
  return bytes;
}

static void Switches(void) {
  bool on = true, off = false, was = false;
  CHECK(GET("prof.active", was) == 0 && was);
  CHECK(SET("prof.active", off) == 0 && GET("prof.active", was) == 0 && !was);
  Fill();
  const size_t before = InFile("inactive.heap");
  CHECK(SET("prof.active", on) == 0);
  Empty();
  Fill();
  const size_t after = InFile("active.heap");
  CHECK(after > before + 100000);
  CHECK(mallctl("prof.reset", NULL, NULL, NULL, 0) == 0 && InFile("reset.heap") < 10000);
  Empty();
  size_t logarithm = 12;
  CHECK(SET("prof.reset", logarithm) == 0 && GET("prof.lg_sample", logarithm) == 0 && logarithm == 12);
  logarithm = 6;
  CHECK(SET("prof.reset", logarithm) == 0);
}

static void *Thread(void *expected) {
  bool active = false;
  CHECK(GET("thread.prof.active", active) == 0 && active == (expected != NULL));
  const size_t before = InFile("thread.heap");
  Fill();
  const size_t after = InFile("thread.heap");
  CHECK(expected != NULL ? after > before + 100000 : after < before + 10000);
  Empty();
  return NULL;
}

static void Threads(void) {
  bool off = false, on = true;
  pthread_t thread;
  const char *name = "reader 1", *bad = "two\nlines", *read = NULL;
  CHECK(SET("thread.prof.name", name) == 0 && SET("thread.prof.name", bad) != 0);
  CHECK(GET("thread.prof.name", read) == 0 && strcmp(read, name) == 0);
  CHECK(SET("thread.prof.active", off) == 0);
  size_t before = InFile("off.heap");
  Fill();
  CHECK(InFile("off.heap") == before);
  Empty();
  CHECK(SET("thread.prof.active", on) == 0);
  CHECK(SET("prof.thread_active_init", off) == 0);
  pthread_create(&thread, NULL, Thread, NULL);
  pthread_join(thread, NULL);
  CHECK(SET("prof.thread_active_init", on) == 0);
  pthread_create(&thread, NULL, Thread, &thread);
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "hooks") == 0) Hooks();
  if (strcmp(mode, "switches") == 0) Switches(), Threads();
  if (strcmp(mode, "leak") == 0) Fill(), printf("written\n");
  if (strcmp(mode, "clean") == 0) Fill(), Empty();
  if (strcmp(mode, "peak") == 0) {
    for (int i = 0; i < 8; ++i) kept[i] = memset(malloc(4 << 20), 1, 4 << 20);
  }
  return 0;
}
C
ln -s libgranary.so "$work/libgranary.so.1"
cc -O2 -fno-builtin -pthread -I"$root/core/include" -o "$work/main" "$work/main.c" -L"$work" -lgranary
cd "$work"

# with OPTIONS MODE: the status of a run
with() {
  status=0
  LD_LIBRARY_PATH=$work MALLOC_CONF="prof:true,lg_prof_sample:6,$1" "$work/main" "$2" >out.log 2>err.log || status=$?
  return "$status"
}
count() { find . -name "$1" | wc -l; }
expect() { test "$2" "$3" "$4" || fail "$1: $2 is not $3 $4: $(cat err.log)"; }

with prof_prefix:hooks hooks || fail "hooks"
with prof_prefix:hooks,prof_bt_max:3 hooks || fail "prof_bt_max"
with prof_prefix:switches switches || fail "switches and threads"

with prof_prefix:final,prof_final:true clean
expect "prof_final" "$(count 'final.*.f.heap')" -eq 1
with prof_prefix:,prof_final:true clean
expect "an empty prefix" "$(count '.*.f.heap')" -eq 0
with prof_prefix:leak,prof_leak:true leak
grep -q 'still allocated at exit' err.log || fail "prof_leak said nothing"
status=0
with prof_prefix:error,prof_final:true,prof_leak_error:true leak || status=$?
expect "prof_leak_error" "$status" -eq 1
grep -q written out.log || fail "prof_leak_error lost what was printed"
with prof_prefix:interval,lg_prof_interval:16 leak
expect "lg_prof_interval" "$(count 'interval.*.i[0-9]*.heap')" -ge 3
with prof_prefix:peak,prof_gdump:true peak
expect "prof_gdump" "$(count 'peak.*.u[0-9]*.heap')" -ge 3
with prof_prefix:init,prof_final:true,prof_thread_active_init:false leak
grep -q '^@' init.*.heap && fail "prof_thread_active_init:false took samples"
with prof_prefix:inactive,prof_final:true,prof_active:false leak
grep -q '^@' inactive.*.heap && fail "prof_active:false took samples"
echo "jemalloc_prof: ok"
