// With a rate of one byte every allocation is a sample. The profile is then exact, and must include
// every function that allocates or frees.
#include <fcntl.h>
#include <malloc.h>

#include <new>
#include <vector>

#include "../check.h"
#include "granary/profile.h"

#pragma weak granary_profile_start
#pragma weak granary_profile_pause
#pragma weak granary_profile_stop
#pragma weak granary_profile_reset
#pragma weak granary_profile_dump
#pragma weak granary_profile_summarize
#pragma weak granary_profile_stack_at

namespace {

granary_profile_summary Summary() {
  granary_profile_summary s{};
  CHECK(granary_profile_summarize(&s, sizeof s) == 0);
  return s;
}

// What `act` adds to the allocated and freed objects of the profile.
struct Change {
  uint64_t allocated, freed, requested;
  int64_t live_bytes;
};

template <class Act>
Change During(Act act) {
  const granary_profile_summary before = Summary();
  act();
  const granary_profile_summary after = Summary();
  return {after.allocated.samples - before.allocated.samples,
          after.freed.samples - before.freed.samples,
          after.allocated.requested - before.allocated.requested,
          static_cast<int64_t>((after.allocated.bytes - after.freed.bytes) -
                               (before.allocated.bytes - before.freed.bytes))};
}

void* g_p;

void TestSizes() {
  for (size_t size : {1, 8, 40, 1000, 5000, 60000, 100000, 1000000, 3000000}) {
    const Change made = During([&] { g_p = Hide(malloc(size)); });
    CHECK(made.allocated == 1 && made.freed == 0 && made.requested == size);
    CHECK(made.live_bytes == static_cast<int64_t>(malloc_usable_size(g_p)));
    const Change gone = During([&] { free(g_p); });
    CHECK(gone.allocated == 0 && gone.freed == 1);
    CHECK(gone.live_bytes == -made.live_bytes);
  }
}

void TestWays() {
  CHECK(During([] { g_p = Hide(calloc(3, 50)); }).requested == 150);
  CHECK(During([] { free(g_p); }).freed == 1);
  CHECK(During([] { g_p = Hide(calloc(1, 70000)); }).allocated == 1);
  CHECK(During([] { free(g_p); }).freed == 1);
  CHECK(During([] { g_p = Hide(aligned_alloc(256, 512)); }).allocated == 1);
  CHECK(During([] { free(g_p); }).freed == 1);
  CHECK(During([] { g_p = Hide(::operator new(40)); }).requested == 40);
  CHECK(During([] { ::operator delete (g_p, size_t{40}); }).freed == 1);
  CHECK(During([] { g_p = Hide(::operator new (40, std::align_val_t{64})); }).allocated == 1);
  CHECK(During([] { ::operator delete (g_p, std::align_val_t{64}); }).freed == 1);
}

void TestRealloc() {
  g_p = Hide(malloc(100));
  const Change in_place = During([] { g_p = Hide(realloc(g_p, 105)); });
  CHECK(in_place.allocated == 0 && in_place.freed == 0 && in_place.requested == 5);
  const Change moved = During([] { g_p = Hide(realloc(g_p, 300)); });
  CHECK(moved.allocated == 1 && moved.freed == 1 && moved.requested == 300);
  const Change large = During([] { g_p = Hide(realloc(g_p, 5 << 20)); });
  CHECK(large.allocated == 1 && large.freed == 1);
  const Change grown = During([] { g_p = Hide(realloc(g_p, 6 << 20)); });
  CHECK(grown.allocated == grown.freed && grown.live_bytes == 1 << 20);
  CHECK(During([] { free(g_p); }).freed == 1);
}

// Older objects in the slabs of sampled objects are not part of the profile.
void TestOthersInTheSameSlab(const std::vector<void*>& before) {
  const Change c = During([&] {
    for (void* p : before) free(p);
  });
  CHECK(c.allocated == 0 && c.freed == 0);
}

size_t CountStacks() {
  granary_profile_stack s;
  size_t count = 0;
  while (granary_profile_stack_at(count, &s, sizeof s) == 0) {
    CHECK(s.depth > 0 && s.allocated.samples >= s.freed.samples);
    ++count;
  }
  return count;
}

void TestDump() {
  char path[64];
  snprintf(path, sizeof path, "/tmp/granary_profile_exact.%d", getpid());
  CHECK(granary_profile_dump(path) == 0);
  const int file = open(path, O_RDONLY);
  char text[16] = {};
  CHECK(file >= 0 && read(file, text, 14) == 14 && strcmp(text, "heap profile: ") == 0);
  close(file);
  unlink(path);
  CHECK(granary_profile_dump("/nonexistent/profile") == -1);
}

}  // namespace

int main() {
  if (&granary_profile_start == nullptr) SkipTest("this process does not run on Granary.");
  std::vector<void*> before;
  before.reserve(3000);
  for (int i = 0; i < 3000; ++i) before.push_back(Hide(malloc(1 + i % 500)));
  granary_profile_summary none;
  CHECK(granary_profile_summarize(&none, sizeof none) == -1);
  CHECK(granary_profile_dump("/tmp/granary_profile_none") == -1);
  CHECK(granary_profile_start(1, 7) == 0);
  for (int round = 0; round < 3; ++round) {
    TestSizes();
    TestWays();
    TestRealloc();
    TestOthersInTheSameSlab(before);
    before.clear();
    CHECK(Summary().lost == 0 && Summary().live_samples == 0);
    CHECK(CountStacks() == Summary().stacks);
    TestDump();
    CHECK(granary_profile_reset() == 0 && Summary().allocated.samples == 0);
  }
  g_p = Hide(malloc(64));
  granary_profile_pause();
  CHECK(During([] { free(Hide(malloc(64))); }).allocated == 0);
  CHECK(During([] { free(g_p); }).freed == 1);
  void* const left = Hide(malloc(64));
  granary_profile_start(1, 7);
  void* const right = Hide(malloc(64));
  granary_profile_stop();
  CHECK(granary_profile_summarize(&none, sizeof none) == -1);
  free(left);
  free(right);
  return 0;
}
