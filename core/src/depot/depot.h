// Batches in flight between the caches of CPUs: whole magazines of pointers change hands in a few
// instructions, so that what one CPU frees and another allocates never reaches the slabs (Bonwick,
// "Magazines and vmem"). Magazines that lay unneeded for a window of time drain to the slabs.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/hint.h"
#include "base/low_water.h"
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

  // Up to n <= kMagazine objects, from a magazine or from the slabs; 0 when memory is refused.
  size_t Take(SizeClass c, void** to, size_t n) noexcept {
    Magazine* const m = n == BatchOf(c) && n > 1 ? PopFull(c) : nullptr;
    if (m == nullptr) return central_->Fetch(c, to, n);
    const size_t count = m->count;
    __builtin_memcpy(to, m->objects, count * sizeof(void*));
    PushEmpty(m);
    return count;
  }

  // Takes n <= kMagazine objects back.
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
    }
  }

  // Sends everything to the slabs.
  void DrainAll() noexcept {
    if (!used_.load(std::memory_order_relaxed)) return;
    for (SizeClass c = 1; c < kNumSmall; ++c) Drain(c, ~size_t{0});
  }

  size_t CachedObjects(SizeClass c) const {
    return IsSmall(c) ? rows_[c].objects.load(std::memory_order_relaxed) : 0;
  }
  Mutex<System>& mutex(SizeClass c) { return rows_[c].mutex; }
  Mutex<System>& empties_mutex() { return empties_mutex_; }

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
    Hint<size_t> full_count;
    Hint<size_t> more;  // full magazines that it may hold beyond kMinMagazines
    LowWater low;
    std::atomic<size_t> objects{0};
  };

  Magazine* PopFull(SizeClass c) noexcept {
    Row& row = rows_[c];
    if (row.objects.load(std::memory_order_relaxed) == 0) {
      NoteMiss(c);
      return nullptr;
    }
    Locked hold(row.mutex);
    Magazine* const m = row.full;
    if (m == nullptr) return nullptr;
    row.full = m->next;
    row.full_count = row.full_count - 1;
    row.low.Note(row.full_count);
    row.objects.fetch_sub(m->count, std::memory_order_relaxed);
    return m;
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
    Magazine* const m = PopEmpty();
    if (m == nullptr) return false;
    m->count = n;
    __builtin_memcpy(m->objects, from, n * sizeof(void*));
    used_.store(true, std::memory_order_relaxed);
    Locked hold(row.mutex);
    m->next = row.full;
    row.full = m;
    row.full_count = row.full_count + 1;
    row.objects.fetch_add(n, std::memory_order_relaxed);
    return true;
  }

  Magazine* PopEmpty() noexcept {
    {
      Locked hold(empties_mutex_);
      if (empties_ != nullptr) {
        Magazine* const m = empties_;
        empties_ = m->next;
        return m;
      }
    }
    return static_cast<Magazine*>(metadata_->Allocate(sizeof(Magazine)));
  }

  void PushEmpty(Magazine* m) noexcept {
    Locked hold(empties_mutex_);
    m->next = empties_;
    empties_ = m;
  }

  void Drain(SizeClass c, size_t magazines) noexcept {
    for (size_t i = 0; i < magazines; ++i) {
      Magazine* const m = PopFull(c);
      if (m == nullptr) return;
      central_->Return(c, m->objects, m->count);
      PushEmpty(m);
    }
  }

  Metadata<System>* metadata_ = nullptr;
  Below* central_ = nullptr;
  Mutex<System> empties_mutex_;
  Magazine* empties_ = nullptr;
  std::atomic<bool> used_{false};  // whether there ever was a full magazine
  Row rows_[kNumSmall];
};

}  // namespace granary
