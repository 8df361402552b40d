// The operators new with a hint, as in google/tcmalloc: every form and alignment, deleted by every
// form of delete, and cold objects on pages of their own.
#include <granary/granary.h>
#include <granary/heap.h>

#include <new>
#include <thread>
#include <vector>

#include "check.h"

enum class __hot_cold_t : uint8_t;

void* operator new(size_t, __hot_cold_t) __attribute__((weak));
void* operator new[](size_t, __hot_cold_t) __attribute__((weak));
void* operator new(size_t, const std::nothrow_t&, __hot_cold_t) noexcept __attribute__((weak));
void* operator new[](size_t, const std::nothrow_t&, __hot_cold_t) noexcept __attribute__((weak));
void* operator new(size_t, std::align_val_t, __hot_cold_t) __attribute__((weak));
void* operator new[](size_t, std::align_val_t, __hot_cold_t) __attribute__((weak));
void* operator new(size_t, std::align_val_t, const std::nothrow_t&, __hot_cold_t) noexcept
    __attribute__((weak));
void* operator new[](size_t, std::align_val_t, const std::nothrow_t&, __hot_cold_t) noexcept
    __attribute__((weak));

#pragma weak granary_heap_of
#pragma weak granary_heap_name

namespace {

constexpr auto kCold = static_cast<__hot_cold_t>(0), kLastCold = static_cast<__hot_cold_t>(127);
constexpr auto kFirstHot = static_cast<__hot_cold_t>(128), kHot = static_cast<__hot_cold_t>(255);

bool IsCold(const void* p) {
  granary_heap* const heap = granary_heap_of(p);
  return heap != nullptr && strcmp(granary_heap_name(heap), "cold") == 0;
}

void Fill(void* p, size_t size) { memset(p, 0x5a, size); }

void TrySize(size_t size) {
  for (const __hot_cold_t hint : {kCold, kLastCold, kFirstHot, kHot}) {
    const bool cold = hint < kFirstHot;
    void* const objects[] = {operator new(size, hint), operator new(size, std::nothrow, hint),
                                                       operator new(size, hint)};
    for (void* p : objects) {
      CHECK(p != nullptr && IsCold(p) == cold);
      Fill(p, size);
    }
    operator delete(objects[0]);
    operator delete(objects[1], std::nothrow);
    operator delete(objects[2], size);
    void* const arrays[] = {operator new[](size, hint), operator new[](size, std::nothrow, hint)};
    for (void* p : arrays) {
      CHECK(p != nullptr && IsCold(p) == cold);
      Fill(p, size);
    }
    operator delete[](arrays[0], size);
    operator delete[](arrays[1]);
  }
}

void TryAligned(size_t size, std::align_val_t alignment) {
  const auto low = static_cast<size_t>(alignment) - 1;
  for (const __hot_cold_t hint : {kCold, kHot}) {
    void* const p = operator new(size, alignment, hint);
    void* const q = operator new(size, alignment, std::nothrow, hint);
    void* const r = operator new[](size, alignment, hint);
    void* const s = operator new[](size, alignment, std::nothrow, hint);
    for (void* object : {p, q, r, s}) {
      CHECK(object != nullptr && (reinterpret_cast<uintptr_t>(object) & low) == 0);
      CHECK(IsCold(object) == (hint == kCold));
      Fill(object, size);
    }
    operator delete(p, size, alignment);
    operator delete(q, alignment);
    operator delete[](r, size, alignment);
    operator delete[](s, alignment, std::nothrow);
  }
}

void TryRefusal() {
  constexpr size_t kImpossible = ~size_t{0} / 4;
  bool thrown = false;
  try {
    operator delete(operator new(kImpossible, kCold));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
  CHECK(operator new(kImpossible, std::nothrow, kCold) == nullptr);
}

// The first use, by threads at the same time.
void TryThreads() {
  std::vector<std::thread> threads;
  std::vector<void*> objects(8);
  for (void*& object : objects) {
    threads.emplace_back([&object] { object = operator new(100, kCold); });
  }
  for (std::thread& thread : threads) thread.join();
  granary_heap* const heap = granary_heap_of(objects[0]);
  for (void* object : objects) {
    CHECK(granary_heap_of(object) == heap && IsCold(object));
    operator delete(object, 100);
  }
}

}  // namespace

int main() {
  void* (*const hinted)(size_t, __hot_cold_t) = operator new;
  if (hinted == nullptr) SkipTest("the allocator has no operator new with a hint");
  TryThreads();
  for (const size_t size :
       {0, 1, 8, 9, 24, 100, 1000, 5000, 40000, 70000, 300000, 1 << 20, 3 << 20}) {
    TrySize(size);
    for (const size_t alignment : {16, 64, 4096}) TryAligned(size, std::align_val_t{alignment});
  }
  TryRefusal();
  return 0;
}
