// A heap that grows in one size class while slabs of another have free pages purges these
// immediately, not after the decay time: first in small steps on the slow paths, then on the
// background thread.
#include <thread>
#include <vector>

#include "../child.h"
#include "../resident.h"
#include "granary/granary.h"

#pragma weak granary_set_options

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGarbage = 24 * kMiB;
constexpr size_t kGrowth = 20 * kMiB;

void Fill(std::vector<void*>& objects, size_t bytes, size_t size) {
  for (size_t done = 0; done < bytes; done += size) {
    objects.push_back(memset(malloc(size), 1, size));
  }
}

// Keeps one object of 48 KiB, or of twelve pages: few slabs are empty, and most pages are free.
void FreeAllButAFew(std::vector<void*>& objects) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<void*> kept;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % (12 * page / 1024) == 0) {
      kept.push_back(objects[i]);
    } else {
      free(objects[i]);
    }
  }
  objects.swap(kept);
}

void GrowOverGarbage(size_t garbage_size, size_t growth_size) {
  std::vector<void*> garbage, growth;
  garbage.reserve(kGarbage / garbage_size + 1);
  growth.reserve(kGrowth / growth_size + 1);
  Fill(garbage, kGarbage, garbage_size);
  FreeAllButAFew(garbage);
  const size_t before = ResidentBytes();
  Fill(growth, kGrowth, growth_size);
  // The background thread may need a moment on a busy machine. Nothing decays within an hour.
  size_t grown = 0;
  for (int wait = 0; wait < 200; ++wait) {
    const size_t now = ResidentBytes();
    grown = now > before ? now - before : 0;
    if (grown < kGrowth / 2) break;
    usleep(10000);
  }
  CHECK(grown < kGrowth / 2);
  for (void* p : garbage) free(p);
  for (void* p : growth) free(p);
}

// A little garbage in each of many size classes, which only single pages could be purged of, stays
// until it decays.
void GrowOverScatteredGarbage() {
  constexpr size_t kOfEach = 256 * 1024;
  std::vector<void*> garbage, growth;
  garbage.reserve(16 * kOfEach / 64);
  growth.reserve(16 * kOfEach / 5000 + 1);
  for (size_t size = 64; size <= 1024; size += 64) Fill(garbage, kOfEach, size);
  FreeAllButAFew(garbage);
  const size_t before = ResidentBytes();
  Fill(growth, 16 * kOfEach, 5000);
  usleep(100000);
  CHECK(ResidentBytes() - before > 15 * kOfEach);
  for (void* p : garbage) free(p);
  for (void* p : growth) free(p);
}

}  // namespace

int main() {
  if (OnSystemHeap() || &granary_set_options == nullptr) SkipTest("the rule is Granary's own.");
  CHECK(granary_set_options("dirty_decay_ms:3600000") == 0);
  const pid_t child = fork();  // a young child has no background thread
  CHECK(child >= 0);
  if (child == 0) {
    GrowOverScatteredGarbage();
    GrowOverGarbage(1000, 5000);
    _exit(0);
  }
  ExpectCleanChild(child);
  std::thread([] { free(malloc(100)); }).join();  // with two threads a background thread starts
  GrowOverGarbage(700, 3000);
}
