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
    if (bytes > left_ && !Refill(bytes)) {
      if (void* const larger = RecycleLarger(row, bytes); larger != nullptr) return larger;
      Merge();
      if (bytes > left_) return nullptr;
    }
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
      spare_bytes_ += spare->bytes - sizeof(Chunk);
    }
    return true;
  }

  // Only for sizes up to kMaxRecycled.
  void Free(void* p, size_t bytes) noexcept {
    Locked hold(mutex_);
    const size_t row = RoundUp(bytes, kCacheLine) / kCacheLine;
    Use(size_t{0} - row * kCacheLine);
    Keep(p, row * kCacheLine);
    freed_ = true;
  }

  // Which of the memory that is taken from now on the kernel may back with huge pages: none, what
  // exceeds a huge page, or all.
  enum class Huge : uint8_t { kNone, kBeyondFirst, kAll };
  void SetHuge(Huge huge) { huge_.store(huge, std::memory_order_relaxed); }
  // Bytes of address space for huge pages.
  size_t mapped_huge() const { return mapped_huge_.load(std::memory_order_relaxed); }

  // Bytes of address space taken from the system, and of structures in use.
  size_t mapped() const { return mapped_.load(std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

  Mutex<System>& mutex() { return mutex_; }

  static constexpr size_t kMaxRecycled = 4 * kKiB;

 private:
  friend struct Layout;
  struct Node {
    Node* next;
    size_t bytes;
  };
  // At the start of each chunk: all of them in a list, and those that nothing was taken from yet.
  struct alignas(kCacheLine) Chunk {
    Chunk* next;
    size_t bytes;
    Chunk* next_spare;
  };
  static constexpr size_t kRows = kMaxRecycled / kCacheLine + 1;
  static constexpr size_t kChunk = kMiB;
  static constexpr size_t kHuge = 2 * kMiB;
  static constexpr size_t kUsable = kChunk - sizeof(Chunk);

  void Use(size_t more) noexcept {
    used_.store(used_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  void* Recycle(size_t row, size_t bytes) noexcept {
    Use(bytes);
    Node* node = free_[row];
    free_[row] = node->next;
    __builtin_memset(static_cast<void*>(node), 0, bytes);
    return node;
  }

  // Puts [p, p+bytes), whole cache lines, into the lists.
  void Keep(void* p, size_t bytes) noexcept {
    for (char* at = static_cast<char*>(p); bytes > 0;) {
      const size_t piece = bytes < kMaxRecycled ? bytes : kMaxRecycled;
      auto* const node = reinterpret_cast<Node*>(at);
      *node = {free_[piece / kCacheLine], piece};
      free_[piece / kCacheLine] = node;
      at += piece;
      bytes -= piece;
    }
  }

  // When the system refuses more, and all that is free is too short: neighbours become one, and the
  // longest run the place where new pieces are cut.
  GRANARY_NOINLINE void Merge() noexcept {
    if (!freed_) return;
    freed_ = false;
    Keep(next_, left_);
    Node* sorted = nullptr;
    for (Node*& list : free_) {
      sorted = MergeByAddress(sorted, SortByAddress(list));
      list = nullptr;
    }
    next_ = nullptr;
    left_ = 0;
    while (sorted != nullptr) {
      Node* const first = sorted;
      size_t bytes = 0;
      do {
        bytes += sorted->bytes;
        sorted = sorted->next;
      } while (AddressOf(sorted) == AddressOf(first) + bytes);
      if (bytes <= left_) {
        Keep(first, bytes);
        continue;
      }
      Keep(next_, left_);
      next_ = reinterpret_cast<char*>(first);
      left_ = bytes;
    }
    __builtin_memset(next_, 0, left_);
  }

  static Node* MergeByAddress(Node* a, Node* b) noexcept {
    Node* head = nullptr;
    for (Node** tail = &head;; tail = &(*tail)->next) {
      if (a == nullptr || b == nullptr) {
        *tail = a == nullptr ? b : a;
        return head;
      }
      Node*& lower = a < b ? a : b;
      *tail = lower;
      lower = lower->next;
    }
  }

  // By merging, bottom up: runs[i] holds 2^i pieces, or none.
  static Node* SortByAddress(Node* list) noexcept {
    Node* runs[40] = {};
    while (list != nullptr) {
      Node* run = list;
      list = list->next;
      run->next = nullptr;
      size_t i = 0;
      for (; runs[i] != nullptr; ++i) {
        run = MergeByAddress(runs[i], run);
        runs[i] = nullptr;
      }
      runs[i] = run;
    }
    Node* sorted = nullptr;
    for (Node* run : runs) sorted = MergeByAddress(sorted, run);
    return sorted;
  }

  void* RecycleLarger(size_t row, size_t bytes) noexcept {
    for (size_t larger = row; larger < kRows; ++larger) {
      if (free_[larger] == nullptr) continue;
      void* const p = Recycle(larger, bytes);
      Keep(static_cast<char*>(p) + bytes, larger * kCacheLine - bytes);
      return p;
    }
    return nullptr;
  }

  bool WantsHuge() const noexcept {
    const Huge huge = huge_.load(std::memory_order_relaxed);
    return huge == Huge::kAll || (huge == Huge::kBeyondFirst && mapped() >= kHuge);
  }

  Chunk* MapChunk(size_t bytes) noexcept {
    const bool huge = WantsHuge();
    if (huge) bytes = RoundUp(bytes, kHuge);
    auto* const chunk = static_cast<Chunk*>(System::Map(bytes, huge ? kHuge : 64 * kKiB, nullptr));
    if (chunk == nullptr) return nullptr;
    if (huge) {
      System::AllowHuge(chunk, bytes, true);
      mapped_huge_.fetch_add(bytes, std::memory_order_relaxed);
    }
    *chunk = {chunks_, bytes, nullptr};
    chunks_ = chunk;
    mapped_.fetch_add(bytes, std::memory_order_relaxed);
    return chunk;
  }

  bool Refill(size_t bytes) noexcept {
    Chunk* chunk = spare_;
    if (chunk != nullptr && bytes <= kUsable) {
      spare_ = chunk->next_spare;
      spare_bytes_ -= chunk->bytes - sizeof(Chunk);
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
  bool freed_ = false;  // something since the last merge
  std::atomic<size_t> mapped_{0}, used_{0}, mapped_huge_{0};
  std::atomic<Huge> huge_{Huge::kNone};
};

}  // namespace granary
