// Objects of no bytes: addresses in memory without access. malloc(0) returns one, and any use of it
// but free ends the program. An address is not used again before all others were.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/os.h"
#include "pages/metadata.h"

namespace granary::hardened {

template <Os System>
class EmptyObjects {
 public:
  static constexpr size_t kStep = 16;  // bytes from one address to the next
  static constexpr size_t kMost = size_t{1} << 16;

  // False if the system refuses; Allocate then returns nullptr.
  bool Init(Metadata<System>& metadata) noexcept {
    auto* const used = static_cast<std::atomic<uint64_t>*>(metadata.Allocate(kMost / 8));
    char* const base = static_cast<char*>(System::Reserve(kMost * kStep, kTrackerBytes, nullptr));
    if (used == nullptr || base == nullptr) return false;
    used_ = used;
    base_ = base;
    return true;
  }

  bool Holds(const void* p) const noexcept {
    return base_ != nullptr &&
           static_cast<size_t>(static_cast<const char*>(p) - base_) < kMost * kStep;
  }

  // nullptr if all are in use.
  void* Allocate() noexcept {
    if (base_ == nullptr) return nullptr;
    const size_t start = next_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < kMost / 64; ++i) {
      const size_t w = (start / 64 + i) % (kMost / 64);
      const uint64_t passed = i == 0 ? (uint64_t{1} << (start % 64)) - 1 : 0;
      if (void* const p = TakeOf(w, passed); p != nullptr) return p;
    }
    return nullptr;
  }

  // Whether p is in use.
  bool IsUsed(const void* p) const noexcept {
    const size_t offset = OffsetOf(p);
    return offset % kStep == 0 && (WordOf(offset).load(std::memory_order_relaxed) & BitOf(offset));
  }
  // False if p was not in use.
  bool Free(const void* p) noexcept {
    const size_t offset = OffsetOf(p);
    if (offset % kStep != 0) return false;
    return (WordOf(offset).fetch_and(~BitOf(offset), std::memory_order_relaxed) & BitOf(offset)) !=
           0;
  }

 private:
  size_t OffsetOf(const void* p) const noexcept {
    return static_cast<size_t>(static_cast<const char*>(p) - base_);
  }
  std::atomic<uint64_t>& WordOf(size_t offset) const noexcept { return used_[offset / kStep / 64]; }
  static uint64_t BitOf(size_t offset) noexcept { return uint64_t{1} << (offset / kStep % 64); }

  // An address of word w but those of `passed`.
  void* TakeOf(size_t w, uint64_t passed) noexcept {
    uint64_t used = used_[w].load(std::memory_order_relaxed);
    while ((used | passed) != ~uint64_t{0}) {
      const auto bit = static_cast<size_t>(std::countr_one(used | passed));
      if (!used_[w].compare_exchange_weak(used, used | uint64_t{1} << bit)) continue;
      const size_t index = w * 64 + bit;
      next_.store((index + 1) % kMost, std::memory_order_relaxed);
      return base_ + index * kStep;
    }
    return nullptr;
  }

  char* base_ = nullptr;
  std::atomic<uint64_t>* used_ = nullptr;
  std::atomic<size_t> next_{0};
};

}  // namespace granary::hardened
