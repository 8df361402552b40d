// Quarantine: where freed objects wait. Each free stores its object in a random slot of its class,
// and the object that waited there may be used again. So no program can tell which free makes an
// address return. Any number of threads may call it.
#pragma once

#include <atomic>
#include <cstddef>

#include "hardened/random.h"

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
    return slots_[random_.Next() & (count_ - 1)].exchange(p, std::memory_order_acq_rel);
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

 private:
  std::atomic<void*>* slots_ = nullptr;
  size_t count_ = 0;
  Random random_;
};

}  // namespace granary::hardened
