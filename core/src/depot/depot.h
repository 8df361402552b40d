// Batches in flight between the caches of CPUs: whole magazines of pointers change hands in a few
// instructions, so that what one CPU frees and another allocates never reaches the slabs (Bonwick,
// "Magazines and vmem"). Magazines that lay unneeded for a window of time drain to the slabs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/hint.h"
#include "base/low_water.h"
#include "base/prefetch.h"
#include "central/central.h"
#include "os/mutex.h"
#include "pages/metadata.h"

namespace granary {

template <Os System, class Below = Central<System>>
class Depot {
 public:
  static constexpr size_t kMagazine = 62;  // pointers; a magazine is 512 bytes

  constexpr Depot() = default;
  constexpr Depot(Metadata<System>& metadata, Below& central)
      : metadata_(&metadata), central_(&central) {}
  void Bind(Metadata<System>& metadata, Below& central) noexcept {
    metadata_ = &metadata;
    central_ = &central;
  }

  // How many objects of class c change hands at a time; where it is one, there are no magazines.
  static constexpr size_t BatchOf(SizeClass c) {
    const size_t fit = 32 * kKiB / kClassSize[c];
    return fit < 1 ? 1 : fit > kMagazine ? kMagazine : fit;
  }

  // Up to n <= kMagazine objects, from a magazine or from the slabs, the one to use first last; 0
  // when memory is refused.
  size_t Take(SizeClass c, void** to, size_t n) noexcept {
    size_t count = n == BatchOf(c) && n > 1 ? PopFull(c, to) : 0;
    if (count > 0) {
      // Another CPU may have written them last, and all are fetched at the price of one.
      for (size_t i = count; i-- > 0;) PrefetchForWrite(to[i]);
      return count;
    }
    count = central_->Fetch(c, to, n);
    std::reverse(to, to + count);  // the slabs give what lies lowest first
    return count;
  }

  // Takes n <= kMagazine objects back, the one to use first last.
  void Give(SizeClass c, void* const* from, size_t n) noexcept {
    if (n == 0) return;
    if (n == BatchOf(c) && n > 1 && PushFull(c, from, n)) return;
    central_->Return(c, from, n);
  }

  // Ends the window of every class: what was not needed in it goes to the slabs.
  void EndWindow() noexcept {
    for (SizeClass c = 1; c < kNumSmall; ++c) {
      size_t idle;
      {
        Locked hold(rows_[c].mutex);
        Row& row = rows_[c];
        idle = row.low.EndWindow(row.full_count);
        if (!row.refused) row.more = row.more / 2;
        row.refused = false;
      }
      Drain(c, idle);
      FreeEmpties(c, idle);
    }
  }

  // Sends everything to the slabs.
  void DrainAll() noexcept {
    if (!used_.load(std::memory_order_relaxed)) return;
    for (SizeClass c = 1; c < kNumSmall; ++c) {
      Drain(c, ~size_t{0});
      FreeEmpties(c, ~size_t{0});
    }
  }

  size_t CachedObjects(SizeClass c) const {
    return IsSmall(c) ? rows_[c].objects.load(std::memory_order_relaxed) : 0;
  }
  Mutex<System>& mutex(SizeClass c) { return rows_[c].mutex; }

  // Calls visit(p) for each cached object of class c.
  template <class Visit>
  void ForEach(SizeClass c, Visit&& visit) noexcept {
    Locked hold(rows_[c].mutex);
    for (Magazine* m = rows_[c].full; m != nullptr; m = m->next) {
      for (size_t i = 0; i < m->count; ++i) visit(m->objects[i]);
    }
  }

 private:
  friend struct Layout;
  struct Magazine {
    Magazine* next;
    size_t count;
    void* objects[kMagazine];
  };
  static_assert(sizeof(Magazine) == 512);

  static constexpr size_t kMinMagazines = 4;
  static constexpr size_t kMaxBytes = 512 * kKiB;  // of one class

  struct alignas(kCacheLine) Row {
    Mutex<System> mutex;
    Hint<bool> refused;  // the limit was met in this window, and objects were missed
    Magazine* full = nullptr;
    Magazine* empty = nullptr;
    Hint<size_t> full_count;
    Hint<size_t> more;  // full magazines that it may hold beyond kMinMagazines
    LowWater low;
    std::atomic<size_t> objects{0};
  };
  static_assert(sizeof(Row) == kCacheLine, "a batch changes hands by one line and the magazine's");

  // The objects of a full magazine; how many.
  size_t PopFull(SizeClass c, void** to) noexcept {
    Row& row = rows_[c];
    if (row.objects.load(std::memory_order_relaxed) == 0) {
      NoteMiss(c);
      return 0;
    }
    Locked hold(row.mutex);
    Magazine* const m = row.full;
    if (m == nullptr) return 0;
    row.full = m->next;
    row.full_count = row.full_count - 1;
    row.low.Note(row.full_count);
    const size_t count = m->count;
    row.objects.fetch_sub(count, std::memory_order_relaxed);
    __builtin_memcpy(to, m->objects, count * sizeof(void*));
    PushEmpty(row, m);
    return count;
  }

  // Missed objects that it had to refuse before: worth a higher limit.
  void NoteMiss(SizeClass c) noexcept {
    Row& row = rows_[c];
    if (!row.refused) return;
    Locked hold(row.mutex);
    row.low.Note(0);
    if (row.more * BatchOf(c) * kClassSize[c] < kMaxBytes) row.more = row.more * 2 + kMinMagazines;
  }

  bool PushFull(SizeClass c, void* const* from, size_t n) noexcept {
    Row& row = rows_[c];
    if (row.full_count >= kMinMagazines + row.more) {  // a hint; the truth is read under the lock
      row.refused = true;
      return false;
    }
    if (Locked hold(row.mutex); row.empty != nullptr) {
      Fill(row, from, n);
      return true;
    }
    auto* const m = static_cast<Magazine*>(metadata_->Allocate(sizeof(Magazine)));
    if (m == nullptr) return false;
    used_.store(true, std::memory_order_relaxed);
    Locked hold(row.mutex);
    PushEmpty(row, m);
    Fill(row, from, n);
    return true;
  }

  // With the lock of the row, which has an empty magazine.
  static void Fill(Row& row, void* const* from, size_t n) noexcept {
    Magazine* const m = row.empty;
    row.empty = m->next;
    m->count = n;
    __builtin_memcpy(m->objects, from, n * sizeof(void*));
    m->next = row.full;
    row.full = m;
    row.full_count = row.full_count + 1;
    row.objects.fetch_add(n, std::memory_order_relaxed);
  }

  static void PushEmpty(Row& row, Magazine* m) noexcept {
    m->next = row.empty;
    row.empty = m;
  }

  void FreeEmpties(SizeClass c, size_t most) noexcept {
    Row& row = rows_[c];
    for (size_t i = 0; i < most; ++i) {
      row.mutex.Lock();
      Magazine* const m = row.empty;
      if (m != nullptr) row.empty = m->next;
      row.mutex.Unlock();
      if (m == nullptr) return;
      metadata_->Free(m, sizeof *m);
    }
  }

  void Drain(SizeClass c, size_t magazines) noexcept {
    void* objects[kMagazine];
    for (size_t i = 0; i < magazines; ++i) {
      const size_t count = PopFull(c, objects);
      if (count == 0) return;
      central_->Return(c, objects, count);
    }
  }

  Metadata<System>* metadata_ = nullptr;
  Below* central_ = nullptr;
  std::atomic<bool> used_{false};  // whether there ever was a full magazine
  Row rows_[kNumSmall];
};

}  // namespace granary
