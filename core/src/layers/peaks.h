// The most that the program held at one time. Nobody counts live objects as they come and go, so
// they are measured: when the page heap has handed out a step more than at the last look, at the
// end of each window, and whenever the figures are read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"

namespace granary {

class Peaks {
 public:
  // After an allocation on a slow path, with no lock held: `used` is what the page heap handed out.
  void Note(size_t used) noexcept {
    if (used >= kStep + beyond_.load(std::memory_order_relaxed)) [[unlikely]]
      Look();
  }
  // At the end of a window.
  void EndWindow(size_t used) noexcept {
    if (used >= kStep) Look();
  }
  // Measures now.
  GRANARY_COLD void Look() noexcept;
  // Peaks count from now on.
  GRANARY_COLD void Reset() noexcept;

  uint64_t live() const noexcept { return live_.load(std::memory_order_relaxed); }

 private:
  friend struct Layout;
  static constexpr size_t kStep = kMiB;              // the least that a look is worth,
  static constexpr size_t kStepOfCache = 32 * kKiB;  // and more where there is much to look at
  static constexpr size_t kParts = 64;               // of what is used, that it may be late by

  std::atomic<size_t> beyond_{0};  // of bytes used, how far beyond a step to look again
  std::atomic<uint64_t> live_{0};  // the most seen
};

}  // namespace granary
