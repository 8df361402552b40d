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
    if (left_ + spare_bytes_ >= bytes) return true;
    // In one mapping: each costs a system call and a page.
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

  static constexpr size_t kWorthPurging = 128 * kKiB;  // free, before anybody looks for pages
  // Gives pages of what is free back to the system, where that is `worth` bytes more than what the
  // last look found too short; returns how many bytes.
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

  // Puts [p, p+bytes), whole cache lines, into the lists.
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

  // When the system refuses more, and all that is free is too short: neighbours become one, and the
  // longest run the place where new pieces are cut.
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

  // All that is free, out of the lists.
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

  // Takes the neighbours that begin a sorted list; returns how many bytes they are together.
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

  // The runs of free neighbours that hold whole pages; what is shorter goes back to the lists.
  // Those whose pages went before are among them: what was freed beside them may end a page of
  // theirs.
  Node* TakeLongRuns() noexcept {
    Node* runs = nullptr;
    for (Node* sorted = TakeAllSorted(); sorted != nullptr;) {
      Node* const first = sorted;
      const size_t bytes = TakeRun(&sorted);
      if (bytes <= kMaxRecycled || !HoldsPage(first, bytes)) {
        Keep(first, bytes);
        continue;
      }
      if (first->bytes == bytes) {  // longer than any piece, so its pages went before
        first->next = clean_;
        clean_ = first;
        continue;
      }
      *first = {runs, bytes};
      runs = first;
    }
    return runs;
  }

  // Makes a run zero but for its node, whole pages by giving them back.
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

  // Cuts small pieces from a run whose pages went back; false if there is none.
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
    // The system's own setting may be to use huge pages always.
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
  size_t scattered_ = 0;   // of these, in pieces that hold no page
  Node* clean_ = nullptr;  // runs whose pages went back: zero but for their nodes
  bool freed_ = false;     // something since the last merge
  std::atomic<size_t> mapped_{0}, used_{0}, mapped_huge_{0};
  std::atomic<Huge> huge_{Huge::kNone};
};

}  // namespace granary
