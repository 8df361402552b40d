/* A C program that any build of the library must run: blocks of many sizes are kept, resized and
 * checked. Built with EXPECT_GRANARY it links to the library by name and prints its version. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef EXPECT_GRANARY
#include <granary/granary.h>
#endif

enum { kBlocks = 4096, kRounds = 100000 };

struct block {
  unsigned char* start;
  size_t size;
};

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static int holds_pattern(const struct block* block, unsigned char pattern) {
  for (size_t i = 0; i < block->size; i++) {
    if (block->start[i] != pattern) return 0;
  }
  return 1;
}

static int refuse(const char* what) {
  fprintf(stderr, "smoke: %s\n", what);
  return 1;
}

static int replace_blocks(void) {
  static struct block blocks[kBlocks];
  uint32_t state = 1;
  for (int round = 0; round < kRounds; round++) {
    const uint32_t index = next_random(&state) % kBlocks;
    struct block* block = &blocks[index];
    const unsigned char pattern = (unsigned char)index;
    if (!holds_pattern(block, pattern)) return refuse("a block lost its contents");
    const size_t size = 1 + next_random(&state) % (16u << (index % 12));
    unsigned char* grown = realloc(block->start, size);
    if (grown == NULL) return refuse("realloc returned NULL");
    memset(grown, pattern, size);
    *block = (struct block){grown, size};
  }
  for (int i = 0; i < kBlocks; i++) free(blocks[i].start);
  return 0;
}

static int check_zeroed(void) {
  unsigned char* zeroed = calloc(1000, 1000);
  if (zeroed == NULL) return refuse("calloc returned NULL");
  const struct block block = {zeroed, 1000 * 1000};
  if (!holds_pattern(&block, 0)) return refuse("calloc returned a dirty block");
  free(zeroed);
  return 0;
}

int main(void) {
  if (replace_blocks() != 0 || check_zeroed() != 0) return 1;
#ifdef EXPECT_GRANARY
  puts(granary_version());
#endif
  return 0;
}
