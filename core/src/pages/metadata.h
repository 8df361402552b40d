// Memory for Granary's own structures, apart from the program's: cut from chunks, and kept in lists
// by size when freed. The address space is never unmapped. The pool has its own lock, whatever lock
// the caller holds.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/bits.h"
#include "base/units.h"
#include "os/mutex.h"
#include "os/os.h"
#include "pages/room.h"

namespace granary {

template <Os System>
class Metadata {
 public:
  // Zeroed memory, aligned to a cache line; nullptr if the system refuses.
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

  // Ensures that the next `bytes` succeed even if the system refuses then; false if it refuses now.
  bool Reserve(size_t bytes) noexcept {
    Locked hold(mutex_);
    if (left_ + spare_bytes_ >= bytes) return true;
    // One mapping for both: each mapping costs a system call and a page.
    const size_t missing = bytes - left_ - spare_bytes_ + sizeof(Chunk);
    Chunk* const spare = MapChunk(missing < kChunk ? kChunk : RoundUp(missing, kChunk));
    if (spare == nullptr) return false;
    spare->next_spare = spare_;
    spare_ = spare;
    spare_bytes_ += spare->bytes - sizeof(Chunk);
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

  static constexpr size_t kWorthPurging = 128 * kKiB;  // free bytes that make a purge worthwhile
  // Purges free pages if the free bytes exceed by `worth` what the last purge found unusable;
  // returns the number of bytes.
  size_t PurgeFree(size_t worth = kWorthPurging) noexcept {
    Node* runs = nullptr;
    {
      Locked hold(mutex_);
      if (listed_ < scattered_) scattered_ = listed_;
      if (!freed_ || listed_ - scattered_ < worth) return 0;
      runs = TakeLongRuns();
      scattered_ = listed_;
    }
    size_t done = 0;
    while (runs != nullptr) {
      Node* const run = runs;
      runs = run->next;
      done += PurgeInside(run);
      Locked hold(mutex_);
      run->next = clean_;
      clean_ = run;
    }
    return done;
  }

  // Sets which metadata the kernel may back with huge pages from now on: none, all beyond the first
  // huge page, or all.
  enum class Huge : uint8_t { kNone, kBeyondFirst, kAll };
  void SetHuge(Huge huge) { huge_.store(huge, std::memory_order_relaxed); }
  // Bytes of address space for huge pages.
  size_t mapped_huge() const { return mapped_huge_.load(std::memory_order_relaxed); }

  // Bytes of mapped address space, and of structures in use.
  size_t mapped() const { return mapped_.load(std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

  Mutex<System>& mutex() { return mutex_; }

  static constexpr size_t kMaxRecycled = 4 * kKiB;

 private:
  friend struct DescriptorRows;
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
    listed_ -= row * kCacheLine;
    __builtin_memset(static_cast<void*>(node), 0, bytes);
    return node;
  }

  // Adds [p, p+bytes), whole cache lines, to the lists.
  void Keep(void* p, size_t bytes) noexcept {
    for (char* at = static_cast<char*>(p); bytes > 0;) {
      const size_t piece = bytes < kMaxRecycled ? bytes : kMaxRecycled;
      auto* const node = reinterpret_cast<Node*>(at);
      *node = {free_[piece / kCacheLine], piece};
      free_[piece / kCacheLine] = node;
      listed_ += piece;
      at += piece;
      bytes -= piece;
    }
  }

  // The system refuses more, and each free piece is too small: merges neighbours, and cuts new
  // pieces from the longest run.
  GRANARY_NOINLINE void Merge() noexcept {
    if (!freed_ && clean_ == nullptr) return;
    Keep(next_, left_);
    Node* sorted = TakeAllSorted();
    next_ = nullptr;
    left_ = 0;
    while (sorted != nullptr) {
      Node* const first = sorted;
      const size_t bytes = TakeRun(&sorted);
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

  // Removes and returns all free pieces.
  Node* TakeAllSorted() noexcept {
    freed_ = false;
    listed_ = 0;
    Node* sorted = SortByAddress(clean_);
    clean_ = nullptr;
    for (Node*& list : free_) {
      sorted = MergeByAddress(sorted, SortByAddress(list));
      list = nullptr;
    }
    return sorted;
  }

  // Removes the adjacent pieces at the head of a sorted list; returns the sum of their sizes.
  static size_t TakeRun(Node** sorted) noexcept {
    const uintptr_t first = AddressOf(*sorted);
    size_t bytes = 0;
    do {
      bytes += (*sorted)->bytes;
      *sorted = (*sorted)->next;
    } while (AddressOf(*sorted) == first + bytes);
    return bytes;
  }

  static bool HoldsPage(const Node* run, size_t bytes) noexcept {
    const size_t page = System::PageSize();
    return RoundUp(AddressOf(run + 1), page) + page <= AddressOf(run) + bytes;
  }

  // Removes the runs of free neighbours with whole pages; shorter runs return to the lists. Purged
  // runs are included: a piece that was freed beside one may complete a page.
  Node* TakeLongRuns() noexcept {
    Node* runs = nullptr;
    for (Node* sorted = TakeAllSorted(); sorted != nullptr;) {
      Node* const first = sorted;
      const size_t bytes = TakeRun(&sorted);
      if (bytes <= kMaxRecycled || !HoldsPage(first, bytes)) {
        Keep(first, bytes);
        continue;
      }
      if (first->bytes == bytes) {  // longer than any piece: its pages were purged before
        first->next = clean_;
        clean_ = first;
        continue;
      }
      *first = {runs, bytes};
      runs = first;
    }
    return runs;
  }

  // Zeroes a run except its node; whole pages by purging them.
  static size_t PurgeInside(Node* run) noexcept {
    char* const begin = reinterpret_cast<char*>(run + 1);
    char* const end = reinterpret_cast<char*>(run) + run->bytes;
    const size_t page = System::PageSize();
    char* const from = reinterpret_cast<char*>(RoundUp(AddressOf(begin), page));
    char* const to = reinterpret_cast<char*>(RoundDown(AddressOf(end), page));
    const bool gone = to > from && System::Purge(from, static_cast<size_t>(to - from));
    if (!gone) {
      __builtin_memset(begin, 0, static_cast<size_t>(end - begin));
      return 0;
    }
    __builtin_memset(begin, 0, static_cast<size_t>(from - begin));
    __builtin_memset(to, 0, static_cast<size_t>(end - to));
    return static_cast<size_t>(to - from);
  }

  // Cuts small pieces from a purged run; false if there is none.
  bool RefillFromClean(size_t bytes) noexcept {
    Node* const run = clean_;
    if (run == nullptr || bytes > kMaxRecycled) return false;
    clean_ = run->next;
    Keep(next_, left_);
    next_ = reinterpret_cast<char*>(run);
    left_ = run->bytes;
    *run = {};
    return true;
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

  // A bottom-up merge sort: runs[i] has 2^i pieces, or none.
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
    if (HugePageBytes<System>() != kHuge) return false;
    return huge == Huge::kAll || (huge == Huge::kBeyondFirst && mapped() >= kHuge);
  }

  Chunk* MapChunk(size_t bytes) noexcept {
    const bool huge = WantsHuge();
    if (huge) bytes = RoundUp(bytes, kHuge);
    auto* const chunk = static_cast<Chunk*>(System::Map(bytes, huge ? kHuge : 64 * kKiB, nullptr));
    if (chunk == nullptr) return nullptr;
    if (chunks_ != nullptr && !HasRoom<System>()) {
      System::Unmap(chunk, bytes);
      return nullptr;
    }
    // The system's setting may be to use huge pages always.
    System::AllowHuge(chunk, bytes, huge);
    if (huge) mapped_huge_.fetch_add(bytes, std::memory_order_relaxed);
    *chunk = {chunks_, bytes, nullptr};
    chunks_ = chunk;
    mapped_.fetch_add(bytes, std::memory_order_relaxed);
    return chunk;
  }

  bool Refill(size_t bytes) noexcept {
    if (RefillFromClean(bytes)) return true;
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
  size_t listed_ = 0;      // bytes in the lists
  size_t scattered_ = 0;   // of these, in pieces smaller than a page
  Node* clean_ = nullptr;  // purged runs: zero except their nodes
  bool freed_ = false;     // whether a piece was freed since the last merge
  std::atomic<size_t> mapped_{0}, used_{0}, mapped_huge_{0};
  std::atomic<Huge> huge_{Huge::kNone};
};

}  // namespace granary
