// Quarantine: where freed objects wait. Each free stores its object in a random slot of its class,
// and the object that waited there may be used again. So no program can tell which free makes an
// address return. Any number of threads may call it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace granary::hardened {

// Slots of a class, or of blocks.
class Quarantine {
 public:
  constexpr Quarantine() = default;
  // `count` is a power of two; the slots are null.
  void Bind(std::atomic<void*>* slots, size_t count) {
    slots_ = slots;
    count_ = count;
  }

  // Stores p; returns the object that leaves, or nullptr.
  void* Exchange(void* p) {
    return slots_[Random() & (count_ - 1)].exchange(p, std::memory_order_acq_rel);
  }

  // Calls visit(p) for each object. No other thread may call the quarantine meanwhile.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (size_t i = 0; i < count_; ++i) {
      if (void* const p = slots_[i].load(std::memory_order_relaxed); p != nullptr) visit(p);
    }
  }

  // Takes all objects out, and calls visit(p) for each.
  template <class Visit>
  void TakeAll(Visit&& visit) {
    for (size_t i = 0; i < count_; ++i) {
      void* const p = slots_[i].exchange(nullptr, std::memory_order_acq_rel);
      if (p != nullptr) visit(p);
    }
  }

  static void Seed(uint64_t seed) { seed_.store(seed, std::memory_order_relaxed); }

 private:
  // A sequence of each class. Two threads may use one number twice.
  uint64_t Random() {
    uint64_t state = state_.load(std::memory_order_relaxed);
    if (state == 0)
      state = seed_.load(std::memory_order_relaxed) ^ reinterpret_cast<uintptr_t>(this);
    state = state * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;  // Knuth's MMIX
    state_.store(state, std::memory_order_relaxed);
    return state >> 40;
  }

  static inline std::atomic<uint64_t> seed_{0};
  std::atomic<void*>* slots_ = nullptr;
  size_t count_ = 0;
  std::atomic<uint64_t> state_{0};
};

}  // namespace granary::hardened
