/* A program whose allocations are known. planted MODE: writes "ready", waits for a line, allocates
 * as MODE says, writes "done" and waits for the end of its input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))

enum { kSmall = 60000, kLarge = 40, kPins = 4000, kPerPage = 64 };
static void* volatile kept[kSmall + kLarge + kPins];
static int count;

SITE static void* Small(void) { return malloc(1000); }
SITE static void* Large(void) { return malloc(3 << 20); }
SITE static void* Pinner(void) { return malloc(64); }
SITE static void* Bulk(void) {
  return malloc(62);
} /* another size: compilers merge functions that are alike */
SITE static void* Early(void) { return malloc(2000); }

SITE static void* Keep(void* p) {
  if (p == NULL) abort();
  memset(p, 1, 8);
  return kept[count++] = p;
}

/* 60,000,000 bytes in small objects, of which half are freed, and 120 MiB in large blocks. */
static void Sizes(void) {
  for (int i = 0; i < kSmall; ++i) Keep(Small());
  for (int i = 0; i < kSmall; i += 2) free(kept[i]);
  for (int i = 0; i < kLarge; ++i) Keep(Large());
}

/* One object of each page full of them stays. */
static void Pins(void) {
  static void* volatile bulk[kPins * (kPerPage - 1)];
  int n = 0;
  for (int page = 0; page < kPins; ++page) {
    Keep(Pinner());
    for (int i = 1; i < kPerPage; ++i) bulk[n++] = Bulk();
  }
  while (n > 0) free(bulk[--n]);
}

/* 8 MiB and more in two heaps of the program's own (granary/heap.h). */
void* granary_heap_create(const char* name, size_t cap) __attribute__((weak));
void* granary_heap_malloc(void* heap, size_t size) __attribute__((weak));
static void Heaps(void) {
  for (int h = 0; h < 2; ++h) {
    void* heap = granary_heap_create("planted", 0);
    for (int i = 0; i < 4096; ++i) memset(granary_heap_malloc(heap, 1024), 1, 1024);
  }
}

/* A leak under churn, as fast as it goes, until the input ends. */
SITE static void* Churn(unsigned i) { return malloc(64 + i % 2000); }
SITE static void* Leak(void) { return malloc(200); }

static void Leaks(void) {
  static void* volatile ring[4096];
  for (unsigned i = 0; i < 400000000; ++i) {
    const unsigned k = (i * 2654435761u) >> 20;
    free(ring[k]);
    ring[k] = Churn(i);
    if (ring[k] == NULL) abort();
    if (i % 400 == 0) kept[0] = Leak();
    if (i % 20000 == 0) usleep(5000);
  }
}

/* Enough for a background thread, and then free: a program without one acts on requests when it
 * next allocates, and this one sleeps. */
static void Grow(void) {
  enum { kMany = 60000 };
  static void* many[kMany];
  for (int i = 0; i < kMany; ++i) many[i] = memset(malloc(1500), 1, 1500);
  for (int i = 0; i < kMany; ++i) free(many[i]);
}

static void Say(const char* word) {
  puts(word);
  fflush(stdout);
}

int main(int argc, char** argv) {
  char line[16];
  for (int i = 0; i < 500; ++i) kept[kSmall + i % 40] = Early();
  if (argc > 2) Grow();
  Say("ready");
  if (argc < 2 || fgets(line, sizeof line, stdin) == NULL) return 1;
  if (strcmp(argv[1], "sizes") == 0) Sizes();
  if (strcmp(argv[1], "pins") == 0) Pins();
  if (strcmp(argv[1], "leaks") == 0) Leaks();
  if (strcmp(argv[1], "heaps") == 0) Heaps();
  Say("done");
  return fgets(line, sizeof line, stdin) == NULL ? 0 : 1;
}
