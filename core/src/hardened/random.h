// Random numbers for quarantines: nobody who does not know the seed can tell the next one.
#pragma once

#include <atomic>
#include <cstdint>

namespace granary::hardened {

class Random {
 public:
  constexpr Random() = default;

  // 24 bits. Two threads may get one number both.
  uint64_t Next() {
    uint64_t state = state_.load(std::memory_order_relaxed);
    if (state == 0) [[unlikely]]
      state = seed_.load(std::memory_order_relaxed) ^ reinterpret_cast<uintptr_t>(this);
    state = state * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;  // Knuth's MMIX
    state_.store(state, std::memory_order_relaxed);
    return state >> 40;
  }

  static void Seed(uint64_t seed) { seed_.store(seed, std::memory_order_relaxed); }

 private:
  static inline std::atomic<uint64_t> seed_{0};
  std::atomic<uint64_t> state_{0};  // of a sequence of its own
};

}  // namespace granary::hardened
