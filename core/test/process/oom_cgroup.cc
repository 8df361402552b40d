// A memory cgroup without swap kills a process that exceeds its limit. A heap that fills two thirds
// of the limit with one size after another must therefore reuse the pages of one class for the
// next, not keep them.
#include "cgroup.h"
#include "oom.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kLimit = 96 * kMebi;
constexpr size_t kFill = 60 * kMebi;

constexpr size_t kSizes[] = {64, 200, 1000, 4096, 12000, 33000, 100000, 300000, 2000000, 20000000};

void FillAndTouch(size_t size) {
  oom::Chain chain;
  for (size_t bytes = 0; bytes + size <= kFill; bytes += size) {
    auto* link = static_cast<oom::Link*>(malloc(size));
    CHECK(link != nullptr);
    memset(static_cast<void*>(link), 1, size);
    *link = {chain.head, reinterpret_cast<size_t>(link) ^ size};
    chain.head = link;
  }
  oom::FreeAll(chain, {size, 0});
}

int LiveInside() {
  const bool keeps_small_blocks = OnSystemHeap();
  for (int round = 0; round < 2; ++round) {
    for (size_t size : kSizes) {
      if (size < 128 && keeps_small_blocks) continue;
      FillAndTouch(size);
    }
  }
  return 0;
}

}  // namespace

int main() {
  TestGroup group(kLimit);
  ExpectCleanEnd(group.Run(LiveInside));
}
