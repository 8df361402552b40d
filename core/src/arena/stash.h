// The cache of an arena: a few free objects of one class, so that most calls do not reach a slab.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "os/linux.h"
#include "os/mutex.h"
#include "sizes/size_classes.h"

namespace granary {

struct Stash {
  static constexpr size_t kMost = 32;

  Mutex<Linux> mutex;  // protects the members below
  uint32_t count = 0;
  uint64_t made = 0;  // objects allocated since the start
  void* objects[kMost] = {};
};

// The maximum number of objects of each class in a stash: 16 KiB of objects, and none above 4 KiB.
// All zero with option hardened, so that every free leaves the fast path.
inline constinit auto stashed = [] {
  std::array<uint8_t, kNumClasses> most{};
  for (SizeClass c = 1; c < kNumClasses && kClassSize[c] <= 4 * kKiB; ++c) {
    const size_t fit = 16 * kKiB / kClassSize[c];
    most[c] = static_cast<uint8_t>(fit < Stash::kMost ? fit : Stash::kMost);
  }
  return most;
}();

}  // namespace granary
