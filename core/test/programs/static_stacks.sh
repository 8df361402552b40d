#!/bin/sh
# Static programs without a table of their frame entries have complete stacks: from main, through a
# callback of the C library, and from a signal handler.
set -eu
. "$(dirname "$0")/lib.inc"
need cc
cat >"$work/main.c" <<'C'
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "granary/profile.h"

#define FUNCTION(name) __attribute__((noinline, section("." #name))) void name
enum { kMostBytes = 256 };
static void *volatile kept[64];
static int count;

FUNCTION(allocating)(void) {
  char *p = malloc(4096);
  memset(p, 1, 4096);
  kept[count++] = p;
}
FUNCTION(middle)(void) {
  allocating();
  __asm__ volatile("");
}
static int Compare(const void *a, const void *b) {
  if (count < 8) middle();
  return *(const int *)a - *(const int *)b;
}
static void Handler(int signal) {
  (void)signal;
  middle();
}

static int Among(const struct granary_profile_stack *s, uintptr_t function) {
  for (size_t i = 0; i < s->depth; ++i) {
    if ((uintptr_t)s->frames[i] - function < kMostBytes) return 1;
  }
  return 0;
}

// Stacks that name all of these functions.
static int StacksOf(uintptr_t outer) {
  struct granary_profile_stack s;
  int found = 0;
  for (size_t i = 0; granary_profile_stack_at(i, &s, sizeof s) == 0; ++i) {
    found += Among(&s, (uintptr_t)&allocating) && Among(&s, (uintptr_t)&middle) && Among(&s, outer);
  }
  return found;
}

int main(void) {
  int numbers[16];
  for (int i = 0; i < 16; ++i) numbers[i] = (i * 7) % 16;
  if (granary_profile_start(1, 1) != 0) return 2;
  middle();
  qsort(numbers, 16, sizeof *numbers, Compare);
  signal(SIGUSR1, Handler);
  raise(SIGUSR1);
  granary_profile_pause();
  const int from_compare = StacksOf((uintptr_t)&Compare), from_handler = StacksOf((uintptr_t)&Handler);
  const int from_main = StacksOf((uintptr_t)&main);
  printf("main %d, callback %d, handler %d\n", from_main, from_compare, from_handler);
  return from_compare > 0 && from_handler > 0 && from_main >= 3 ? 0 : 1;
}
C
include=$(dirname "$0")/../../include
object=$(dirname "$GRANARY_LIB")/granary.o
for flags in "-static" "-static-pie -fPIE" "-static -Wl,--eh-frame-hdr"; do
  # shellcheck disable=SC2086
  cc -O2 -I"$include" $flags "$work/main.c" "$object" -o "$work/main"
  echo "static_stacks: $flags: $("$work/main")"
done
# A stripped program keeps its section headers.
strip "$work/main"
"$work/main" >/dev/null
