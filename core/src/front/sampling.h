// Which allocations are samples: each allocation independently with probability
// 1 - exp(-size / rate), which is a Poisson process over bytes with one sample in `rate` bytes. At
// a rate of 1 every allocation is a sample. For each class of a cache, Draw gives the number of
// allocations before the next sample. An allocation that no header counts calls Chosen.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/logarithm.h"
#include "front/cache_layout.h"

namespace granary {

class Sampling {
 public:
  bool on() const { return rate_.load(std::memory_order_relaxed) != 0; }
  uint64_t rate() const { return rate_.load(std::memory_order_relaxed); }
  // Changes with each call of Set.
  uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  // Sets the rate; 0 switches sampling off. `seed` starts the random numbers.
  void Set(uint64_t rate, uint64_t seed) {
    state_.store(seed, std::memory_order_relaxed);
    rate_.store(rate, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
  }

  // The number of allocations of class c before the next sample; kInitialCount while sampling is
  // off.
  uint64_t Draw(SizeClass c) {
    const uint64_t rate = this->rate();
    if (rate == 0) return kInitialCount;
    const double count = BytesToNext(rate) / kClassSize[c];
    return count < static_cast<double>(kMaxDrawn) ? static_cast<uint64_t>(count) : kMaxDrawn;
  }

  // As Draw, when `passed` allocations were made since the last sample. Sets *late to the number of
  // them that should have been samples.
  uint64_t DrawAfter(SizeClass c, uint64_t passed, uint64_t* late) {
    *late = 0;
    if (!on()) return kInitialCount;
    for (;; ++*late) {
      const uint64_t count = Draw(c);
      if (count >= passed) return count - passed;
      passed -= count + 1;
    }
  }

  // Whether an allocation of `bytes` is a sample, for an allocation that no header counts.
  bool Chosen(size_t bytes) {
    const uint64_t rate = this->rate();
    return rate != 0 && BytesToNext(rate) < static_cast<double>(bytes);
  }

 private:
  static constexpr uint64_t kMaxDrawn = kCountMask / 4;

  // "splitmix64" (Steele, Lea and Flood, 2014).
  uint64_t Random() {
    constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
    uint64_t z = state_.fetch_add(kStep, std::memory_order_relaxed) + kStep;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double BytesToNext(uint64_t rate) {
    return rate == 1 ? 0 : Exponential() * static_cast<double>(rate);
  }
  // An exponentially distributed number with mean 1.
  double Exponential() { return -NaturalLog(static_cast<double>((Random() >> 11) + 1) * 0x1p-53); }

  std::atomic<uint64_t> rate_{0}, state_{0};
  std::atomic<uint32_t> epoch_{0};
};

}  // namespace granary
