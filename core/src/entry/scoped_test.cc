// Scoped heaps beside the sanitizer's malloc: threads that share a heap, and threads with
// short-lived heaps, while other threads read the heaps' figures.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "granary/heap.h"

namespace {

granary_heap_figures Figures(granary_heap* heap) {
  granary_heap_figures f{};
  granary_heap_measure(heap, &f, sizeof f);
  return f;
}

void RunThreads(int count, const std::function<void(uint64_t)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i + 1);
  for (std::thread& t : threads) t.join();
}

uint64_t Next(uint64_t& state) { return (state = state * 6364136223846793005u + 1) >> 33; }

// What one thread allocates, another may free.
TEST(ScopedHeaps, AreSharedByThreads) {
  granary_heap* const heap = granary_heap_create("shared", 32 << 20);
  constexpr size_t kSlots = 256;
  static std::atomic<char*> slots[kSlots];
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done.load()) {
      EXPECT_LE(Figures(heap).live, 32u << 20);
      granary_heap_purge(heap);
      std::this_thread::yield();
    }
  });
  RunThreads(4, [&](uint64_t random) {
    for (int i = 0; i < 5000; ++i) {
      const size_t size = (size_t{8} << Next(random) % 14) + Next(random) % 7;
      char* p = static_cast<char*>(granary_heap_malloc(heap, size));
      if (p != nullptr) memset(p, 1, size);
      if (p != nullptr && i % 5 == 0) {
        char* const q = static_cast<char*>(granary_heap_realloc(heap, p, size * 2));
        if (q != nullptr) p = q;
      }
      granary_heap_free(heap, slots[Next(random) % kSlots].exchange(p));
    }
  });
  done = true;
  watcher.join();
  for (auto& slot : slots) granary_heap_free(heap, slot.load());
  EXPECT_EQ(Figures(heap).live, 0u);
  EXPECT_EQ(Figures(heap).objects, 0u);
  granary_heap_destroy(heap);
}

TEST(ScopedHeaps, ComeAndGoWithThreads) {
  RunThreads(4, [](uint64_t random) {
    for (int i = 0; i < 60; ++i) {
      granary_heap* const heap = granary_heap_create("own", 0);
      ASSERT_NE(heap, nullptr);
      uint64_t live = 0;
      for (int k = 0; k < 200; ++k) {
        auto* const p = static_cast<char*>(granary_heap_calloc(heap, 1, Next(random) % 3000 + 1));
        ASSERT_EQ(*p, 0);
        *p = 1;
        ASSERT_EQ(granary_heap_of(p), heap);
        ++live;
      }
      ASSERT_EQ(Figures(heap).objects, live);
      if (i % 2 == 0) granary_heap_reset(heap);
      granary_heap_destroy(heap);
    }
  });
}

// The sum of all threads' objects reaches the cap and never exceeds it.
TEST(ScopedHeaps, KeepTheirCapAmongThreads) {
  constexpr size_t kCap = 1 << 20;
  granary_heap* const heap = granary_heap_create("capped", kCap);
  std::atomic<size_t> granted{0};
  RunThreads(4, [&](uint64_t) {
    while (granary_heap_malloc(heap, 4096) != nullptr) granted += 4096;
  });
  EXPECT_EQ(granted.load(), kCap);
  EXPECT_EQ(Figures(heap).live, kCap);
  granary_heap_destroy(heap);
}

}  // namespace
