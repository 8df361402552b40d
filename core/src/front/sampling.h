// Which allocations are samples: each on its own with probability 1 - exp(-size / rate), so that
// bytes are sampled by a Poisson process of one in `rate`; at a rate of 1 all are. A class on a
// cache draws how many allocations pass before the next sample; who has no header to count in draws
// at each.
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
  // Changes when sampling goes on or off or to another rate.
  uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  // A rate of 0 switches it off. `seed` begins the sequence of numbers drawn.
  void Set(uint64_t rate, uint64_t seed) {
    state_.store(seed, std::memory_order_relaxed);
    rate_.store(rate, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
  }

  // How many allocations of class c come before the next sample; kLook while off.
  uint64_t Draw(SizeClass c) {
    const uint64_t rate = this->rate();
    if (rate == 0) return kLook;
    const double count = BytesToNext(rate) / kClassSize[c];
    return count < static_cast<double>(kMostDrawn) ? static_cast<uint64_t>(count) : kMostDrawn;
  }

  // The same when `passed` allocations have come since a sample: counts those of them that should
  // have been samples as late.
  uint64_t DrawAfter(SizeClass c, uint64_t passed, uint64_t* late) {
    *late = 0;
    if (!on()) return kLook;
    for (;; ++*late) {
      const uint64_t count = Draw(c);
      if (count >= passed) return count - passed;
      passed -= count + 1;
    }
  }

  // Whether an allocation of `bytes` that no header counts is a sample.
  bool Chosen(size_t bytes) {
    const uint64_t rate = this->rate();
    return rate != 0 && BytesToNext(rate) < static_cast<double>(bytes);
  }

 private:
  static constexpr uint64_t kMostDrawn = kCountMask / 4;

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
  // With mean 1.
  double Exponential() { return -NaturalLog(static_cast<double>((Random() >> 11) + 1) * 0x1p-53); }

  std::atomic<uint64_t> rate_{0}, state_{0};
  std::atomic<uint32_t> epoch_{0};
};

}  // namespace granary
