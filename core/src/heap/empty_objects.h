// Objects of no bytes: addresses in memory without access. malloc(0) returns one, and any use of it
// but free ends the program. An address is not used again before nearly all others were. The memory
// is reserved at the first call.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/os.h"

namespace granary::heap {

template <Os System>
class EmptyObjects {
 public:
  static constexpr size_t kStep = 16;  // bytes from one address to the next
  static constexpr size_t kMost = size_t{1} << 16;
  static constexpr size_t kTries = 16;  // words of 64 addresses that a call looks at

  bool Holds(const void* p) const noexcept {
    const char* const base = base_.load(std::memory_order_relaxed);
    return base != nullptr &&
           static_cast<size_t>(static_cast<const char*>(p) - base) < kMost * kStep;
  }

  // nullptr if the next addresses are all in use, or the system refuses.
  void* Allocate() noexcept {
    if (base_.load(std::memory_order_relaxed) == nullptr && !Reserve()) return nullptr;
    const size_t start = next_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < kTries; ++i) {
      const size_t w = (start / 64 + i) % (kMost / 64);
      const uint64_t passed = i == 0 ? (uint64_t{1} << (start % 64)) - 1 : 0;
      if (void* const p = TakeOf(w, passed); p != nullptr) return p;
    }
    next_.store((start + kTries * 64) % kMost, std::memory_order_relaxed);
    return nullptr;
  }

  // Whether p is in use.
  bool IsUsed(const void* p) const noexcept {
    const size_t offset = OffsetOf(p);
    return offset % kStep == 0 &&
           (used_[offset / kStep / 64].load(std::memory_order_relaxed) & BitOf(offset)) != 0;
  }
  // False if p was not in use.
  bool Free(const void* p) noexcept {
    const size_t offset = OffsetOf(p);
    if (offset % kStep != 0) return false;
    std::atomic<uint64_t>& word = used_[offset / kStep / 64];
    return (word.fetch_and(~BitOf(offset), std::memory_order_relaxed) & BitOf(offset)) != 0;
  }

 private:
  size_t OffsetOf(const void* p) const noexcept {
    return static_cast<size_t>(static_cast<const char*>(p) - base_.load(std::memory_order_relaxed));
  }
  static uint64_t BitOf(size_t offset) noexcept { return uint64_t{1} << (offset / kStep % 64); }

  // Without a lock, which a fork would have to take: of two threads, one unmaps its own again.
  bool Reserve() noexcept {
    constexpr size_t kBytes = kMost * kStep;
    char* const base = static_cast<char*>(System::Reserve(kBytes, kTrackerBytes, nullptr));
    if (base == nullptr) return false;
    char* none = nullptr;
    if (!base_.compare_exchange_strong(none, base)) System::Unmap(base, kBytes);
    return true;
  }

  // An address of word w but those of `passed`.
  void* TakeOf(size_t w, uint64_t passed) noexcept {
    uint64_t used = used_[w].load(std::memory_order_relaxed);
    while ((used | passed) != ~uint64_t{0}) {
      const auto bit = static_cast<size_t>(std::countr_one(used | passed));
      if (!used_[w].compare_exchange_weak(used, used | uint64_t{1} << bit)) continue;
      const size_t index = w * 64 + bit;
      next_.store((index + 1) % kMost, std::memory_order_relaxed);
      return base_.load(std::memory_order_relaxed) + index * kStep;
    }
    return nullptr;
  }

  std::atomic<char*> base_{nullptr};
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> used_[kMost / 64] = {};
};

}  // namespace granary::heap
