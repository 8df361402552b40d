/* Fills Redis' radix tree with keys, says what it cost, looks each up, and frees it.
   rax_uuid uuid|number COUNT */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rax.h"

static uint64_t state;

static uint64_t Next(void) { /* splitmix64 */
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Redis Cluster's key of a slot: two bytes, the high one first, and what follows. Only the slots of
   one of three nodes are used: of the numbers from 0 to 45,000,000 those whose rest by 16,384 is at
   most 5,460, which are 15,001,367. */
enum { kSlots = 5461 };

static int Key(char* out, size_t room, int uuid, long i) {
  if (!uuid) return snprintf(out, room, "%06ld", i);
  const unsigned slot = (unsigned)(i % kSlots);
  out[0] = (char)(slot >> 8);
  out[1] = (char)slot;
  const uint64_t high = Next(), low = Next();
  return 2 + snprintf(out + 2, room - 2, "%016llx%016llx", (unsigned long long)high,
                      (unsigned long long)low);
}

static double Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double Resident(void) {
  char line[256];
  double kib = 0;
  FILE* f = fopen("/proc/self/smaps_rollup", "r");
  if (f == NULL) return 0;
  while (fgets(line, sizeof(line), f) != NULL) {
    if (sscanf(line, "Rss: %lf", &kib) == 1) break;
  }
  fclose(f);
  return kib * 1024;
}

int main(int argc, char** argv) {
  const int uuid = argc > 1 && strcmp(argv[1], "uuid") == 0;
  const long count = argc > 2 ? atol(argv[2]) : 1000000;
  char key[64];
  const double before = Resident(), start = Now();
  rax* tree = raxNew();
  state = 1;
  for (long i = 0; i < count; i++)
    raxInsert(tree, (unsigned char*)key, (size_t)Key(key, sizeof(key), uuid, i), NULL, NULL);
  const double filled = Now();
  printf("metric insert %.1f ns\n", (filled - start) / (double)count * 1e9);
  printf("metric nodes %llu count\n", (unsigned long long)tree->numnodes);
  printf("metric keys %llu count\n", (unsigned long long)raxSize(tree));
  printf("metric RSS_of_the_tree %.0f bytes\n", Resident() - before);
  long missing = 0;
  state = 1;
  const double searching = Now();
  for (long i = 0; i < count; i++)
    missing +=
        raxFind(tree, (unsigned char*)key, (size_t)Key(key, sizeof(key), uuid, i)) == raxNotFound;
  printf("metric find %.1f ns\n", (Now() - searching) / (double)count * 1e9);
  const double freeing = Now();
  raxFree(tree);
  printf("metric free %.1f ns\n", (Now() - freeing) / (double)count * 1e9);
  nanosleep(&(struct timespec){2, 0}, NULL);
  printf("metric RSS_after_the_fall %.0f bytes\n", Resident());
  if (missing != 0) fprintf(stderr, "%ld keys are not found\n", missing);
  return missing != 0;
}
