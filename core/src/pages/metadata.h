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
    Use(bytes);
    void* p = next_;
    next_ += bytes;
    left_ -= bytes;
    return p;
  }

  // Makes sure that `bytes` more can be had even when the system refuses; false if it does now.
  bool Reserve(size_t bytes) noexcept {
    Locked hold(mutex_);
    while (left_ + spare_bytes_ < bytes) {
      Chunk* const spare = MapChunk(kChunk);
      if (spare == nullptr) return false;
      spare->next_spare = spare_;
      spare_ = spare;
      spare_bytes_ += kUsable;
    }
    return true;
  }

  // Only for sizes up to kMaxRecycled.
  void Free(void* p, size_t bytes) noexcept {
    Locked hold(mutex_);
    const size_t row = RoundUp(bytes, kCacheLine) / kCacheLine;
    Use(size_t{0} - row * kCacheLine);
    static_cast<Node*>(p)->next = free_[row];
    free_[row] = static_cast<Node*>(p);
  }

  // Bytes of address space taken from the system, and of structures in use.
  size_t mapped() const { return mapped_.load(std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

  Mutex<System>& mutex() { return mutex_; }

  static constexpr size_t kMaxRecycled = 4 * kKiB;

 private:
  friend struct Layout;
  struct Node {
    Node* next;
  };
  // At the start of each chunk: all of them in a list, and those that nothing was taken from yet.
  struct alignas(kCacheLine) Chunk {
    Chunk* next;
    size_t bytes;
    Chunk* next_spare;
  };
  static constexpr size_t kRows = kMaxRecycled / kCacheLine + 1;
  static constexpr size_t kChunk = kMiB;
  static constexpr size_t kUsable = kChunk - sizeof(Chunk);

  void Use(size_t more) noexcept {
    used_.store(used_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  void* Recycle(size_t row, size_t bytes) noexcept {
    Use(row * kCacheLine);
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

  Chunk* MapChunk(size_t bytes) noexcept {
    auto* const chunk = static_cast<Chunk*>(System::Map(bytes, 64 * kKiB, nullptr));
    if (chunk == nullptr) return nullptr;
    *chunk = {chunks_, bytes, nullptr};
    chunks_ = chunk;
    mapped_.fetch_add(bytes, std::memory_order_relaxed);
    return chunk;
  }

  bool Refill(size_t bytes) noexcept {
    Chunk* chunk = spare_;
    if (chunk != nullptr && bytes <= kUsable) {
      spare_ = chunk->next_spare;
      spare_bytes_ -= kUsable;
    } else {
      chunk = MapChunk(bytes > kChunk / 4 ? RoundUp(bytes + sizeof(Chunk), 64 * kKiB) : kChunk);
      if (chunk == nullptr) return false;
    }
    next_ = reinterpret_cast<char*>(chunk + 1);
    left_ = chunk->bytes - sizeof(Chunk);
    return true;
  }

  Mutex<System> mutex_;
  char* next_ = nullptr;
  size_t left_ = 0;
  Chunk* chunks_ = nullptr;
  Chunk* spare_ = nullptr;
  size_t spare_bytes_ = 0;
  Node* free_[kRows] = {};
  std::atomic<size_t> mapped_{0}, used_{0};
};

}  // namespace granary
