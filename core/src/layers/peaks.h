// The peak of live bytes. No counter holds the number of live bytes, so the heap is measured: when
// the page heap has grown by a step since the last measurement, when a decay interval ends, and
// when the figures are read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"

namespace granary {

class Peaks {
 public:
  // Measures if the heap has grown by a step, to `used` bytes; returns whether it has.
  bool Note(size_t used) noexcept {
    const bool grown = used >= kStep + beyond_.load(std::memory_order_relaxed);
    if (grown) [[unlikely]]
      Measure();
    return grown;
  }
  // Called when a decay interval ends.
  void EndInterval(size_t used) noexcept {
    if (used >= kStep) Measure();
  }
  GRANARY_COLD void Measure() noexcept;
  // Resets the peak.
  GRANARY_COLD void Reset() noexcept;

  uint64_t live() const noexcept { return live_.load(std::memory_order_relaxed); }

 private:
  friend struct DescriptorRows;
  static constexpr size_t kStep = kMiB;  // smallest growth between two measurements
  // and this much more for each cache that a measurement reads
  static constexpr size_t kStepOfCache = 32 * kKiB;
  // the measured peak may be lower than the true one by this fraction of `used`
  static constexpr size_t kParts = 64;

  // the next measurement is due when `used` exceeds this by one step
  std::atomic<size_t> beyond_{0};
  std::atomic<uint64_t> live_{0};  // the highest value measured
};

}  // namespace granary
