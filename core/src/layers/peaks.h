// The most that the program held at one time. No counter follows live objects, so the heap is
// measured: when the page heap has handed out a step more than at the last measurement, when a
// decay window ends, and when the figures are read.
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
      Measure();
  }
  // When a decay window ends.
  void EndWindow(size_t used) noexcept {
    if (used >= kStep) Measure();
  }
  GRANARY_COLD void Measure() noexcept;
  // Peaks are counted from now on.
  GRANARY_COLD void Reset() noexcept;

  uint64_t live() const noexcept { return live_.load(std::memory_order_relaxed); }

 private:
  friend struct Layout;
  static constexpr size_t kStep = kMiB;              // the least growth between two measurements
  static constexpr size_t kStepOfCache = 32 * kKiB;  // and more of it for each cache to read
  static constexpr size_t kParts = 64;               // the peak may be late by this part of `used`

  std::atomic<size_t> beyond_{0};  // the next measurement is due at so many bytes plus one step
  std::atomic<uint64_t> live_{0};  // the most measured
};

}  // namespace granary
