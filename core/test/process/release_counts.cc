// Purged memory is no longer resident, even where it was a part of a huge page: the kernel would
// otherwise keep that huge page whole until memory is short.
#include <vector>

#include "../resident.h"
#include "cgroup.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kBytes = 512 * kMebi;  // far above the size from which huge pages are used
constexpr size_t kObject = 5000;

// Keeps one object in four, at random. Two of three OS pages contain none of these.
std::vector<void*> FillAndDrop() {
  std::vector<void*> objects, kept;
  for (size_t i = 0; i < kBytes / kObject; ++i) {
    objects.push_back(malloc(kObject));
    CHECK(objects.back() != nullptr);
    memset(objects.back(), 1, kObject);
  }
  unsigned random = 1;
  for (void* p : objects) {
    random = random * 1664525 + 1013904223;
    if ((random >> 30) == 0) {
      kept.push_back(p);
    } else {
      free(p);
    }
  }
  return kept;
}

int Fall(const TestGroup& group) {
  sleep(3);  // a younger child of a fork has no background thread
  const size_t before = group.Usage();
  const std::vector<void*> kept = FillAndDrop();
  const size_t filled = group.Usage() - before;
  size_t left = filled;
  for (int i = 0; i < 100 && left > filled / 2; ++i) {
    usleep(100000);
    left = group.Usage() - before;
  }
  fprintf(stderr, "%zu MiB filled, %zu MiB left, %zu MiB resident\n", filled / kMebi, left / kMebi,
          ResidentBytes() / kMebi);
  CHECK(left <= filled / 2);
  for (void* p : kept) free(p);
  return 0;
}

}  // namespace

int main() {
  TestGroup group(size_t{8} << 30);
  ExpectCleanEnd(group.Run([&] { return Fall(group); }));
}
