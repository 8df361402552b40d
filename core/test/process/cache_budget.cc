// The budget of a CPU cache grows with the heap: a small heap keeps few objects in caches, and a
// large one of many sizes misses less. The default of option cache_bytes is the limit.
#include <vector>

#include "../child.h"
#include "granary/stats.h"

#pragma weak granary_stat

namespace {

constexpr size_t kMiB = size_t{1} << 20;

uint64_t Figure(const char* name) {
  uint64_t value = 0;
  CHECK(granary_stat(name, &value) == 0);
  return value;
}

uint64_t CapacityOfOneCache() { return Figure("cache_capacity") / Figure("caches"); }

// Keeps `bytes` of mixed sizes live and replaces them at random, so that every size class both
// misses and overflows.
void Replace(size_t bytes, uint64_t random) {
  constexpr size_t kMean = 2048, kMost = 4096;
  std::vector<void*> objects(bytes / kMean);
  for (size_t i = 0; i < 40 * objects.size(); ++i) {
    void*& object = objects[NextRandom(&random) % objects.size()];
    free(object);
    object = malloc(1 + NextRandom(&random) % kMost);
  }
  for (void* object : objects) free(object);
}

}  // namespace

int main() {
  if (OnSystemHeap() || &granary_stat == nullptr) SkipTest("the figures are Granary's own.");
  Replace(2 * kMiB, 1);
  CHECK(CapacityOfOneCache() <= 2 * kMiB);
  Replace(48 * kMiB, 2);
  CHECK(CapacityOfOneCache() > 2 * kMiB);
  CHECK(CapacityOfOneCache() <= 8 * kMiB);
  return 0;
}
