/* fragments N: N objects of mixed sizes, nine tenths of them freed at random, blocks that are only
 * half touched; then "ready", and the bytes that live. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state = 1;

static uint64_t Random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

static size_t Size(void) {
  const uint64_t kind = Random() % 100;
  if (kind < 60) return 8 + Random() % 120;
  if (kind < 90) return 128 + Random() % 896;
  if (kind < 99) return 1024 + Random() % (15 << 10);
  return (16 << 10) + Random() % (200 << 10);
}

int main(int argc, char** argv) {
  const int objects = argc > 1 ? atoi(argv[1]) : 1000;
  void** all = malloc(objects * sizeof *all);
  uint64_t live = malloc_usable_size(all);
  for (int i = 0; i < objects; ++i) {
    const size_t size = Size();
    all[i] = malloc(size);
    if (all[i] == NULL) abort();
    memset(all[i], 1, size);
  }
  for (int i = 0; i < objects; ++i) {
    if (Random() % 10 != 0) {
      free(all[i]);
    } else {
      live += malloc_usable_size(all[i]);
    }
  }
  for (int i = 0; i < 8; ++i) {
    char* block = malloc(5 << 20);
    memset(block, 1, 2 << 20);
    live += malloc_usable_size(block);
  }
  live += malloc_usable_size(calloc(1, 3 << 20));
  printf("ready %llu\n", (unsigned long long)live);
  fflush(stdout);
  pause();
}
