// The budget of the CPU caches: how many bytes of objects each of them may hold.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/units.h"

namespace granary {

// A heap of any size may have caches of so many bytes each.
inline constexpr size_t kLeastCacheBudget = 2 * kMiB;

// The budget of each of `caches` caches of a heap that uses `used` bytes: a quarter of the heap for
// all of them together, but kLeastCacheBudget at least and `most` at most. A cache that holds more
// objects misses less; what it holds idle goes back after a decay interval.
constexpr size_t CacheBudget(size_t used, size_t caches, size_t most) {
  const size_t share = used / 4 / std::max(caches, size_t{1});
  return std::min(std::max(share, kLeastCacheBudget), most);
}

static_assert(CacheBudget(0, 0, 8 * kMiB) == kLeastCacheBudget);
static_assert(CacheBudget(48 * kMiB, 2, 8 * kMiB) == 6 * kMiB);
static_assert(CacheBudget(kGiB, 2, 8 * kMiB) == 8 * kMiB);
static_assert(CacheBudget(kGiB, 2, 64 * kKiB) == 64 * kKiB);

// Fits the budget to the options and to the present size of the heap.
void FitCacheBudget() noexcept;

}  // namespace granary
