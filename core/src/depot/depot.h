// The depot: magazines of pointers between the CPU caches (Bonwick, "Magazines and vmem"). A batch
// moves in a few instructions, so objects that one CPU frees and another allocates do not pass
// through the slabs. Each CPU has a shelf; if it is empty, the CPU uses the other shelves.
// Magazines that were idle during a decay interval drain to the slabs.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "arch/anchor.h"
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
  static constexpr size_t kMagazine = 62;  // pointers in a magazine of 512 bytes

  constexpr Depot() = default;
  constexpr Depot(Metadata<System>& metadata, Below& central)
      : metadata_(&metadata), central_(&central) {}
  void Bind(Metadata<System>& metadata, Below& central) noexcept {
    metadata_ = &metadata;
    central_ = &central;
  }

  // The number of objects in a batch of class c. A class with batches of one has no magazines.
  static constexpr size_t BatchOf(SizeClass c) { return kBatches[c]; }

  // Fetches up to n <= kMagazine objects from a magazine or from the slabs, and returns their
  // number; 0 when the system refuses memory. The last object is the one to use first.
  size_t Fetch(SizeClass c, void** to, size_t n) noexcept {
    size_t count = n == BatchOf(c) && n > 1 ? FetchFull(c, to) : 0;
    if (count > 0) return count;
    count = central_->Fetch(c, to, n);
    std::reverse(to, to + count);  // the slabs return the lowest address first
    return count;
  }

  // Returns n <= kMagazine objects to the depot. The last object is the one to use first.
  void Return(SizeClass c, void* const* from, size_t n) noexcept {
    if (n == 0) return;
    if (n == BatchOf(c) && n > 1 && PushFull(c, from, n)) return;
    central_->Return(c, from, n);
  }

  // Fetch and Return for caches with room for less than a batch. They split and fill up magazines,
  // so that whole batches still move from and to the slabs.
  size_t FetchSome(SizeClass c, void** to, size_t n) noexcept {
    if (BatchOf(c) <= n) return Fetch(c, to, n);
    if (const size_t count = PopSome(OwnRow(c), to, n); count > 0) return count;
    void* batch[kMagazine];
    const size_t count = Fetch(c, batch, BatchOf(c));
    const size_t first = count > n ? count - n : 0;
    std::copy(batch + first, batch + count, to);
    ReturnSome(c, batch, first);
    return count - first;
  }
  void ReturnSome(SizeClass c, void* const* from, size_t n) noexcept {
    if (n == 0 || n >= BatchOf(c)) return Return(c, from, n);
    const size_t appended = Append(c, OwnRow(c), from, n);
    if (appended == n || PushFull(c, from + appended, n - appended)) return;
    MakeRoom(c, OwnRow(c));
    if (!PushFull(c, from + appended, n - appended)) {
      central_->Return(c, from + appended, n - appended);
    }
  }

  // Ends the decay interval: returns the objects of idle magazines to the slabs.
  void EndInterval() noexcept {
    ForEachRow([this](SizeClass c, Row& row) {
      size_t idle;
      {
        Locked hold(row.mutex);
        idle = row.low.EndInterval(row.full_count);
        if (!row.refused) row.more = row.more / 2;
        row.refused = false;
      }
      Drain(c, row, idle);
    });
  }

  // Returns all objects to the slabs.
  void DrainAll() noexcept {
    ForEachRow([this](SizeClass c, Row& row) { Drain(c, row, ~size_t{0}); });
  }

  size_t CachedObjects(SizeClass c) noexcept {
    size_t count = 0;
    ForEachRowOf(c, [&](Row& row) { count += row.objects; });
    return count;
  }
  // How often a thread had to wait for a lock of class c.
  uint64_t Contentions(SizeClass c) noexcept {
    uint64_t count = 0;
    ForEachRowOf(c, [&](Row& row) { count += row.mutex.contentions(); });
    return count;
  }

  // While this lock is held, no shelf opens. A fork locks it before the locks of the rows.
  Mutex<System>& opening() { return opening_; }
  template <class Visit>
  void ForEachMutex(Visit&& visit) noexcept {
    ForEachRow([&](SizeClass, Row& row) { visit(row.mutex); });
  }

  // Calls visit(p) for each cached object of class c.
  template <class Visit>
  void ForEach(SizeClass c, Visit&& visit) noexcept {
    ForEachRowOf(c, [&](Row& row) {
      Locked hold(row.mutex);
      for (Magazine* m = row.full; m != nullptr; m = m->next) {
        for (size_t i = 0; i < m->count; ++i) visit(m->objects[i]);
      }
    });
  }

 private:
  friend struct DescriptorRows;
  struct Magazine {
    Magazine* next;
    size_t count;
    void* objects[kMagazine];
  };
  static_assert(sizeof(Magazine) == 512);

  static constexpr auto kBatches = [] {
    std::array<uint8_t, kNumClasses> batches{};
    for (SizeClass c = 1; c < kNumClasses; ++c) {
      batches[c] = std::clamp<size_t>(32 * kKiB / kClassSize[c], 1, kMagazine);
    }
    return batches;
  }();

  static constexpr size_t kMinMagazines = 4;
  static constexpr size_t kMaxBytes = 512 * kKiB;  // of one row

  struct alignas(kCacheLine) Row {
    Mutex<System> mutex;
    Hint<bool> refused;  // whether the row, at its limit, refused a batch in this interval
    Magazine* full = nullptr;
    Magazine* empty = nullptr;
    Hint<size_t> full_count;
    Hint<size_t> more;  // the limit of full magazines, less kMinMagazines
    LowWater low;
    Hint<size_t> objects;
  };
  static_assert(sizeof(Row) == kCacheLine,
                "moving a batch touches one cache line besides the magazine");

  // A shelf has a row of magazines for each small class. CPU i uses shelf i modulo kShelves.
  static constexpr size_t kShelves = 8;

  static size_t OwnShelf() noexcept {
    const int index = CurrentIndex();
    return index < 0 ? 0 : static_cast<size_t>(index) % kShelves;
  }
  Row& RowOf(size_t shelf, SizeClass c) noexcept { return rows_[shelf * kNumSmall + c]; }
  Row& OwnRow(SizeClass c) noexcept { return RowOf(OwnShelf(), c); }
  // Whether the shelf ever held a magazine. The memory of other shelves stays untouched.
  bool IsOpen(size_t shelf) const noexcept {
    return (open_.load(std::memory_order_acquire) >> shelf & 1) != 0;
  }
  void Open(size_t shelf) noexcept {
    Locked hold(opening_);
    open_.fetch_or(1u << shelf, std::memory_order_release);
  }

  template <class Visit>
  void ForEachRowOf(SizeClass c, Visit&& visit) noexcept {
    if (!IsSmall(c)) return;
    for (size_t shelf = 0; shelf < kShelves; ++shelf) {
      if (IsOpen(shelf)) visit(RowOf(shelf, c));
    }
  }
  template <class Visit>
  void ForEachRow(Visit&& visit) noexcept {
    for (size_t shelf = 0; shelf < kShelves; ++shelf) {
      if (!IsOpen(shelf)) continue;
      for (SizeClass c = 1; c < kNumSmall; ++c) visit(c, RowOf(shelf, c));
    }
  }

  // Fetches the objects of a full magazine, from this CPU's shelf if possible; returns their
  // number.
  size_t FetchFull(SizeClass c, void** to) noexcept {
    const size_t own = OwnShelf();
    for (size_t i = 0; i < kShelves; ++i) {
      const size_t shelf = (own + i) % kShelves;
      if (!IsOpen(shelf)) continue;
      const size_t count = PopFull(RowOf(shelf, c), to);
      if (count == 0) continue;
      if (i != 0) PrefetchAll(to, count);
      return count;
    }
    if (IsOpen(own)) RaiseLimit(c, RowOf(own, c));
    return 0;
  }

  // Another CPU wrote these objects last, so each would miss in this CPU's hardware caches. The
  // prefetches overlap the misses.
  static void PrefetchAll(void* const* objects, size_t n) noexcept {
    for (size_t i = n; i-- > 0;) PrefetchForWrite(objects[i]);
  }

  static size_t PopFull(Row& row, void** to) noexcept {
    if (row.objects == 0) return 0;
    Locked hold(row.mutex);
    Magazine* const m = row.full;
    if (m == nullptr) return 0;
    return PopFrom(row, m, to, m->count);
  }

  // Fetches up to n objects of the top magazine; returns their number.
  static size_t PopSome(Row& row, void** to, size_t n) noexcept {
    if (row.objects == 0) return 0;
    Locked hold(row.mutex);
    Magazine* const m = row.full;
    return m == nullptr ? 0 : PopFrom(row, m, to, m->count < n ? m->count : n);
  }

  // The caller holds the lock of the row, and m is its top magazine.
  static size_t PopFrom(Row& row, Magazine* m, void** to, size_t n) noexcept {
    m->count -= n;
    __builtin_memcpy(to, m->objects + m->count, n * sizeof(void*));
    row.objects = row.objects - n;
    row.low.Note(row.full_count - 1);
    if (m->count > 0) return n;
    row.full = m->next;
    row.full_count = row.full_count - 1;
    PushEmpty(row, m);
    return n;
  }

  // Stores up to n objects in the top magazine; returns their number.
  static size_t Append(SizeClass c, Row& row, void* const* from, size_t n) noexcept {
    if (row.objects == 0) return 0;
    Locked hold(row.mutex);
    Magazine* const m = row.full;
    if (m == nullptr || m->count >= BatchOf(c)) return 0;
    const size_t room = BatchOf(c) - m->count;
    const size_t count = n < room ? n : room;
    __builtin_memcpy(m->objects + m->count, from, count * sizeof(void*));
    m->count += count;
    row.objects = row.objects + count;
    return count;
  }

  // Returns the objects of one magazine to the slabs.
  void MakeRoom(SizeClass c, Row& row) noexcept {
    void* objects[kMagazine];
    if (const size_t count = PopFull(row, objects); count > 0) central_->Return(c, objects, count);
  }

  // After a miss: raises the limit of the row if the row refused a batch before.
  static void RaiseLimit(SizeClass c, Row& row) noexcept {
    if (!row.refused) return;
    Locked hold(row.mutex);
    row.low.Note(0);
    if (row.more * BatchOf(c) * kClassSize[c] < kMaxBytes) row.more = row.more * 2 + kMinMagazines;
  }

  bool PushFull(SizeClass c, void* const* from, size_t n) noexcept {
    const size_t shelf = OwnShelf();
    if (!IsOpen(shelf)) Open(shelf);
    Row& row = RowOf(shelf, c);
    // Read without the lock, so a row may exceed its limit by a few magazines.
    if (row.full_count >= kMinMagazines + row.more) {
      row.refused = true;
      return false;
    }
    if (Locked hold(row.mutex); row.empty != nullptr) {
      Fill(row, from, n);
      return true;
    }
    auto* const m = static_cast<Magazine*>(metadata_->Allocate(sizeof(Magazine)));
    if (m == nullptr) return false;
    Locked hold(row.mutex);
    PushEmpty(row, m);
    Fill(row, from, n);
    return true;
  }

  // The caller holds the lock of the row, and the row has an empty magazine.
  static void Fill(Row& row, void* const* from, size_t n) noexcept {
    Magazine* const m = row.empty;
    row.empty = m->next;
    m->count = n;
    __builtin_memcpy(m->objects, from, n * sizeof(void*));
    m->next = row.full;
    row.full = m;
    row.full_count = row.full_count + 1;
    row.objects = row.objects + n;
  }

  static void PushEmpty(Row& row, Magazine* m) noexcept {
    m->next = row.empty;
    row.empty = m;
  }

  // Returns the objects of up to n magazines to the slabs, then frees up to n empty magazines.
  void Drain(SizeClass c, Row& row, size_t n) noexcept {
    void* objects[kMagazine];
    for (size_t i = 0; i < n; ++i) {
      const size_t count = PopFull(row, objects);
      if (count == 0) break;
      central_->Return(c, objects, count);
    }
    FreeEmpties(row, n);
  }

  void FreeEmpties(Row& row, size_t n) noexcept {
    for (size_t i = 0; i < n; ++i) {
      row.mutex.Lock();
      Magazine* const m = row.empty;
      if (m != nullptr) row.empty = m->next;
      row.mutex.Unlock();
      if (m == nullptr) return;
      metadata_->Free(m, sizeof *m);
    }
  }

  Metadata<System>* metadata_ = nullptr;
  Below* central_ = nullptr;
  Mutex<System> opening_;
  std::atomic<uint32_t> open_{0};
  Row rows_[kShelves * kNumSmall];
};

}  // namespace granary
