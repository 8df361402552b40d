// Memory for Granary's own structures, apart from the user's: bumped from chunks, kept in lists by
// size when given back. Nothing here is ever returned to the system; the caller holds a lock or
// not, the pool has its own.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/bits.h"
#include "base/units.h"
#include "os/mutex.h"
#include "os/os.h"

namespace granary {

template <Os System>
class Metadata {
 public:
  // Zeroed memory, aligned to a cache line; nullptr when the system refuses.
  void* Allocate(size_t bytes) noexcept {
    bytes = RoundUp(bytes, kCacheLine);
    Locked hold(mutex_);
    const size_t row = bytes / kCacheLine;
    if (row < kRows && free_[row] != nullptr) return Recycle(row, bytes);
    if (bytes > left_ && !Refill(bytes)) return RecycleLarger(row, bytes);
    void* p = next_;
    next_ += bytes;
    left_ -= bytes;
    return p;
  }

  // Makes sure that `bytes` more can be had even when the system refuses; false if it does now.
  bool Reserve(size_t bytes) noexcept {
    Locked hold(mutex_);
    while (left_ + spare_bytes_ < bytes) {
      Spare* const spare = static_cast<Spare*>(MapChunk(kChunk));
      if (spare == nullptr) return false;
      spare->next = spare_;
      spare_ = spare;
      spare_bytes_ += kChunk;
    }
    return true;
  }

  // Only for sizes up to kMaxRecycled.
  void Free(void* p, size_t bytes) noexcept {
    Locked hold(mutex_);
    const size_t row = RoundUp(bytes, kCacheLine) / kCacheLine;
    static_cast<Node*>(p)->next = free_[row];
    free_[row] = static_cast<Node*>(p);
  }

  // Bytes of address space taken from the system.
  size_t mapped() const { return mapped_.load(std::memory_order_relaxed); }

  Mutex<System>& mutex() { return mutex_; }

  static constexpr size_t kMaxRecycled = 4 * kKiB;

 private:
  struct Node {
    Node* next;
  };
  struct Spare {
    Spare* next;
  };
  static constexpr size_t kRows = kMaxRecycled / kCacheLine + 1;
  static constexpr size_t kChunk = kMiB;

  void* Recycle(size_t row, size_t bytes) noexcept {
    Node* node = free_[row];
    free_[row] = node->next;
    __builtin_memset(static_cast<void*>(node), 0, bytes);
    return node;
  }

  // The rest of a larger piece is lost until that piece is freed; this is the last resort.
  void* RecycleLarger(size_t row, size_t bytes) noexcept {
    for (size_t larger = row; larger < kRows; ++larger) {
      if (free_[larger] != nullptr) return Recycle(larger, bytes);
    }
    return nullptr;
  }

  static void* MapChunk(size_t bytes) noexcept { return System::Map(bytes, 64 * kKiB, nullptr); }

  bool Refill(size_t bytes) noexcept {
    void* p = spare_;
    size_t chunk = kChunk;
    if (p != nullptr && bytes <= kChunk) {
      spare_ = spare_->next;
      spare_bytes_ -= kChunk;
      __builtin_memset(p, 0, sizeof(Spare));
    } else {
      if (bytes > kChunk / 4) chunk = RoundUp(bytes, 64 * kKiB);
      p = MapChunk(chunk);
      if (p == nullptr) return false;
    }
    mapped_.fetch_add(chunk, std::memory_order_relaxed);
    next_ = static_cast<char*>(p);
    left_ = chunk;
    return true;
  }

  Mutex<System> mutex_;
  char* next_ = nullptr;
  size_t left_ = 0;
  Spare* spare_ = nullptr;
  size_t spare_bytes_ = 0;
  Node* free_[kRows] = {};
  std::atomic<size_t> mapped_{0};
};

}  // namespace granary
