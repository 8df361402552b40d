/* fill: reads lines "SIZE COUNT", allocates them all in random order, touches every byte, and
   prints what the heap grew by: requested, usable and resident bytes. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static size_t sizes[1 << 12], counts[1 << 12];

int main(void) {
  size_t kinds = 0, left = 0, requested = 0, usable = 0;
  while (kinds < 1 << 12 && scanf("%zu %zu", &sizes[kinds], &counts[kinds]) == 2)
    left += counts[kinds++];
  uint64_t state = 1;
  double before = Resident();
  before = Resident();
  while (left > 0) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    size_t at = (size_t)((state >> 33) % left), k = 0;
    while (at >= counts[k]) at -= counts[k++];
    counts[k]--;
    left--;
    char* p = malloc(sizes[k]);
    if (p == NULL) return 1;
    memset(p, 1, sizes[k]);
    requested += sizes[k];
    usable += malloc_usable_size(p);
  }
  printf("%zu %zu %.0f\n", requested, usable, Resident() - before);
  return 0;
}
