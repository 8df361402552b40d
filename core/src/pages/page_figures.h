// The figures of the page heap: used, dirty, mapped and purged memory, the peaks, and what stayed
// dirty through an interval. Written under the lock of the page heap, read without it.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/low_water.h"
#include "base/units.h"
#include "pages/block_groups.h"

namespace granary {

struct PageStats {
  size_t mapped = 0;    // bytes of address space that the heap has committed
  size_t used = 0;      // bytes of allocated spans and blocks
  size_t large = 0;     // of these, in blocks
  size_t dirty = 0;     // free bytes that are resident
  size_t released = 0;  // bytes purged so far
  size_t large_requested = 0;
  size_t large_allocations = 0;
  size_t large_frees = 0;
  size_t used_peak = 0;
  size_t dirty_peak = 0;
  size_t held_peak = 0;  // of used and dirty together
  size_t due = 0;
};

// All amounts are in granules, except in functions whose names end in "bytes".
class PageFigures {
 public:
  // Memory becomes used; `dirty` granules of it were dirty.
  void Use(size_t granules, size_t dirty) {
    const size_t used = Load(used_) + granules;
    Store(used_, used);
    Raise(used_peak_, used);
    TakeDirty(dirty);
    Raise(held_peak_, used + Load(dirty_));
  }
  // Memory becomes free; `dirty` granules of it are resident.
  void Unuse(size_t granules, size_t dirty) {
    Add(used_, size_t{0} - granules);
    AddDirty(dirty);
  }
  void AddDirty(size_t granules) {
    Add(dirty_, granules);
    Raise(dirty_peak_, Load(dirty_));
  }
  void TakeDirty(size_t granules) {
    Add(dirty_, size_t{0} - granules);
    low_.Note(Load(dirty_));
  }

  // Refuses allocations that would raise the used memory above `bytes`.
  void SetMost(size_t bytes) { Store(most_less_, ~(bytes / kGranule)); }
  bool Exceeds(size_t more) const { return Load(used_) + more > ~Load(most_less_); }

  void Map(size_t granules) { Add(mapped_, granules); }
  void Unmap(size_t granules) { Add(mapped_, size_t{0} - granules); }
  void Grow(size_t granules) { Add(grown_, granules); }
  // Called by several threads.
  void Purged(size_t granules) { released_.fetch_add(granules, std::memory_order_relaxed); }

  void UseLarge(size_t granules) { Add(large_, granules); }
  void UnuseLarge(size_t granules) { Add(large_, size_t{0} - granules); }
  void MakeBlock(size_t bytes) {
    ++groups_[LargeGroupOf(bytes)].made;
    Add(large_allocations_, 1);
  }
  void DropBlock(size_t bytes) {
    ++groups_[LargeGroupOf(bytes)].gone;
    Add(large_frees_, 1);
  }
  void ResizeBlock(size_t from, size_t to) {
    ++groups_[LargeGroupOf(from)].gone;
    ++groups_[LargeGroupOf(to)].made;
  }
  void RequestLarge(size_t bytes_before, size_t bytes_after) {
    Add(large_requested_, bytes_after - bytes_before);
  }
  LargeCounts CountsOf(size_t group) const { return groups_[group]; }

  // Memory that stayed dirty through the interval becomes due.
  void EndInterval() { Store(due_, low_.EndInterval(Load(dirty_))); }
  void SetDue(size_t granules) { Store(due_, granules); }
  // Memory that stayed dirty through this interval so far.
  size_t idle_bytes() const { return low_.lowest() * kGranule; }

  size_t used() const { return Load(used_); }
  size_t dirty() const { return Load(dirty_); }
  size_t mapped() const { return Load(mapped_); }
  size_t used_bytes() const { return Load(used_) * kGranule; }
  size_t dirty_bytes() const { return Load(dirty_) * kGranule; }
  size_t due_bytes() const { return Load(due_) * kGranule; }
  size_t grown_bytes() const { return Load(grown_) * kGranule; }
  size_t mapped_bytes() const { return Load(mapped_) * kGranule; }

  PageStats Stats() const {
    PageStats s;
    s.mapped = mapped_bytes();
    s.used = used_bytes();
    s.large = Load(large_) * kGranule;
    s.dirty = dirty_bytes();
    s.released = Load(released_) * kGranule;
    s.large_requested = Load(large_requested_);
    s.large_allocations = Load(large_allocations_);
    s.large_frees = Load(large_frees_);
    s.used_peak = Load(used_peak_) * kGranule;
    s.dirty_peak = Load(dirty_peak_) * kGranule;
    s.held_peak = Load(held_peak_) * kGranule;
    s.due = due_bytes();
    return s;
  }

  void ResetPeaks() {
    Store(used_peak_, Load(used_));
    Store(dirty_peak_, Load(dirty_));
    Store(held_peak_, Load(used_) + Load(dirty_));
  }

 private:
  friend struct DescriptorRows;
  using Figure = std::atomic<size_t>;
  static size_t Load(const Figure& f) { return f.load(std::memory_order_relaxed); }
  static void Store(Figure& f, size_t value) { f.store(value, std::memory_order_relaxed); }
  static void Add(Figure& f, size_t more) { Store(f, Load(f) + more); }
  static void Raise(Figure& peak, size_t level) {
    if (level > Load(peak)) Store(peak, level);
  }

  LowWater low_;
  Figure used_{0}, dirty_{0}, due_{0}, large_{0}, mapped_{0}, released_{0}, grown_{0};
  Figure used_peak_{0}, dirty_peak_{0}, held_peak_{0};
  Figure large_requested_{0};  // in bytes
  Figure most_less_{0};        // the complement of the limit: zero is no limit
  Figure large_allocations_{0}, large_frees_{0};
  LargeCounts groups_[kLargeGroups] = {};
};

}  // namespace granary
