// In a memory cgroup of 512 MiB, objects of one size after another are live, never more than 380
// MiB in all, and all but a hundredth of them is freed again. A heap that keeps the garbage would
// grow past 2 GiB and be killed.
#include <vector>

#include "cgroup.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kLimit = 512 * kMebi;
constexpr size_t kLive = 380 * kMebi;

constexpr size_t kSizes[] = {700, 1500, 3000, 6000, 12000, 40000, 200000, 3000000};

struct Live {
  std::vector<void*> kept;
  size_t bytes = 0;
};

void FillAndDrop(size_t size, Live& live) {
  std::vector<void*> objects;
  for (; live.bytes + size <= kLive; live.bytes += size) {
    objects.push_back(malloc(size));
    CHECK(objects.back() != nullptr);
    memset(objects.back(), 1, size);
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 100 == 0) {
      live.kept.push_back(objects[i]);
    } else {
      free(objects[i]);
      live.bytes -= size;
    }
  }
}

int Phases() {
  for (int round = 0; round < 2; ++round) {
    Live live;
    for (const size_t size : kSizes) FillAndDrop(size, live);
    for (void* p : live.kept) free(p);
  }
  return 0;
}

}  // namespace

int main() {
  TestGroup group(kLimit);
  ExpectCleanEnd(group.Run(Phases));
}
