// Callbacks at amounts of held memory: called once each time the heap rises or falls across the
// amount, where they may allocate. Removed callbacks are not called. Eight callbacks fit.
#include <vector>

#include "../check.h"
#include "granary/granary.h"

#pragma weak granary_add_threshold
#pragma weak granary_remove_threshold
#pragma weak granary_release_free_memory

namespace {

constexpr size_t kMebi = size_t{1} << 20;

struct Calls {
  int risen = 0, fallen = 0;
  size_t highest = 0;
};

void Note(void* context, size_t held, int risen) {
  auto& calls = *static_cast<Calls*>(context);
  (risen != 0 ? calls.risen : calls.fallen) += 1;
  if (held > calls.highest) calls.highest = held;
  for (size_t size = 16; size < 100000; size *= 2) free(memset(malloc(size), 1, size));
}

void FillAndFree(size_t bytes) {
  std::vector<void*> blocks;
  for (size_t done = 0; done < bytes; done += 5000) blocks.push_back(malloc(5000));
  for (void* p : blocks) free(p);
}

// Makes calls that take the slow path, which checks the thresholds.
void GiveBack() {
  granary_release_free_memory();
  for (int i = 0; i < 4; ++i) free(malloc(2 * kMebi));
}

}  // namespace

int main() {
  if (&granary_add_threshold == nullptr) SkipTest("the callbacks are Granary's own.");
  Calls low, high, gone;
  CHECK(granary_add_threshold(16 * kMebi, Note, &low) == 0);
  CHECK(granary_add_threshold(512 * kMebi, Note, &high) == 0);
  CHECK(granary_add_threshold(16 * kMebi, Note, &gone) == 0);
  CHECK(granary_remove_threshold(Note, &gone) == 0);
  CHECK(granary_remove_threshold(Note, &gone) == -1);
  for (int round = 1; round <= 3; ++round) {
    FillAndFree(32 * kMebi);
    CHECK(low.risen == round && low.highest >= 16 * kMebi);
    GiveBack();
    CHECK(low.fallen == round);
  }
  CHECK(high.risen == 0 && high.fallen == 0 && gone.risen == 0);
  Calls more[8];
  int added = 0;
  while (added < 8 && granary_add_threshold(1, Note, &more[added]) == 0) ++added;
  CHECK(added == 6);
}
