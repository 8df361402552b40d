// granary/stats.h: every figure has a description, agrees with the C library's functions, and
// changes with the program's allocations.
#include "granary/stats.h"

#include <malloc.h>

#include "../check.h"

namespace {

// Found at run time, so that the test also builds where the library is preloaded.
template <class Function>
Function* Find(Function*, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  CHECK(found != nullptr);
  return found;
}
#define FIND(function)                      \
  decltype(function)* const my_##function = \
      Find(static_cast<decltype(function)*>(nullptr), #function)

constexpr size_t kRoom = 256;

}  // namespace

int main() {
  if (OnSystemHeap()) SkipTest("the functions are Granary's own.");
  FIND(granary_stat);
  FIND(granary_stats);
  FIND(granary_stat_describe);
  FIND(granary_class_stats);

  uint64_t values[kRoom] = {};
  const size_t count = my_granary_stats(values, kRoom);
  CHECK(count > 20 && count < kRoom);
  CHECK(my_granary_stats(nullptr, 0) == count);
  granary_stat_description d;
  for (size_t i = 0; i < count; ++i) {
    CHECK(my_granary_stat_describe(i, &d) == 0);
    CHECK(d.name[0] != 0 && d.layer[0] != 0 && d.meaning[0] != 0);
    CHECK(strcmp(d.kind, "gauge") == 0 || strcmp(d.kind, "counter") == 0);
    CHECK(strcmp(d.unit, "bytes") == 0 || strcmp(d.unit, "count") == 0 ||
          strcmp(d.unit, "nanoseconds") == 0);
    uint64_t value;
    CHECK(my_granary_stat(d.name, &value) == 0);
  }
  CHECK(my_granary_stat_describe(count, &d) == -1);
  uint64_t value;
  CHECK(my_granary_stat("no_such_figure", &value) == -1);

  // A thousand more objects of one class, and a block.
  granary_class_figures before{}, after{};
  size_t index = 0;
  while (my_granary_class_stats(index, &before, sizeof before) == 0 && before.size < 1000) ++index;
  CHECK(before.size >= 1000);
  uint64_t live_before, live_after, blocks_before, blocks_after;
  CHECK(my_granary_stat("live", &live_before) == 0);
  CHECK(my_granary_stat("large_blocks", &blocks_before) == 0);
  static void* objects[1000];
  for (void*& p : objects) CHECK((p = malloc(1000)) != nullptr);
  void* const block = malloc(3000000);
  CHECK(block != nullptr);
  CHECK(my_granary_class_stats(index, &after, sizeof after) == 0);
  CHECK(after.allocations - before.allocations == 1000 && after.live - before.live == 1000);
  CHECK(my_granary_stat("live", &live_after) == 0);
  CHECK(my_granary_stat("large_blocks", &blocks_after) == 0);
  CHECK(live_after - live_before >= 1000 * after.size + 3000000 &&
        blocks_after == blocks_before + 1);
#if defined(__GLIBC__)
  CHECK(mallinfo2().uordblks == live_after);
#endif
  free(block);
  for (void* p : objects) free(p);
  CHECK(my_granary_class_stats(index, &after, sizeof after) == 0);
  CHECK(after.allocations - before.allocations == 1000 && after.live == before.live);

  // A program that knows fewer members gets these members. An index past the end fails.
  granary_class_figures part{};
  part.live = 77;
  CHECK(my_granary_class_stats(index, &part, offsetof(granary_class_figures, live)) == 0);
  CHECK(part.allocations == after.allocations && part.live == 77);
  CHECK(my_granary_class_stats(1000, &part, sizeof part) == -1);
}
