// An arena: a second instance of the layers from central down, over memory from its hooks. Its
// cache is a stash per class, behind a lock. The memory of an arena object is zeroed first. Scoped
// heaps (granary/heap.h) and the arenas of jemalloc's interface are such arenas.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arena/extent_hooks.h"
#include "arena/hooked.h"
#include "arena/stash.h"
#include "base/compiler.h"
#include "central/central.h"
#include "config/options.h"
#include "pages/pages.h"
#include "stats/snapshot.h"

namespace granary {

class Arena {
 public:
  // nullptr when the system refuses.
  static Arena* Create(ExtentHooks* hooks, unsigned index) noexcept;
  // Returns all memory to the hooks and ends the arena; with `again`, it starts anew, empty. No
  // other thread may use it meanwhile.
  void Discard(bool again) noexcept;

  // nullptr when the hooks refuse memory, or above the cap. `alignment` is a power of two.
  void* Allocate(size_t size, size_t alignment, bool zero) noexcept;
  // Aborts if p is not a live object of this arena.
  void Free(void* p) noexcept;
  // Returns nullptr and leaves p unchanged when Allocate would return nullptr. p is an object of
  // this arena.
  void* Reallocate(void* p, size_t size) noexcept;
  // Aborts with a report that names the call if p is not a live object of this arena.
  void CheckOwns(const void* p, const char* verb) noexcept {
    if (UsableSize(p, verb) == 0) DieOf(p, verb);
  }
  // 0 if p is not a live object of this arena.
  size_t UsableSize(const void* p, const char* verb = "malloc_usable_size") noexcept;
  bool ResizeInPlace(void* p, size_t size) noexcept;

  // Limits the bytes of all live objects, rounded up to their classes; 0 for no cap.
  void SetCap(size_t bytes) noexcept {
    cap_.store(bytes == 0 && options.hardened ? kNoCap : bytes, std::memory_order_relaxed);
  }
  size_t cap() const noexcept {
    const size_t cap = cap_.load(std::memory_order_relaxed);
    return cap == kNoCap ? 0 : cap;
  }
  size_t live() const noexcept { return live_.load(std::memory_order_relaxed); }
  // Bytes of memory in use, of free memory that is still resident, and of metadata.
  size_t HeldBytes() noexcept;
  size_t CountObjects() noexcept;
  // Updates the sums over all arenas.
  void Report() noexcept;

  // Purges free pages: all, or only the due pages.
  void Purge(bool all) noexcept;
  void EndInterval() noexcept;

  ClassFigures MeasureClass(SizeClass c) noexcept;
  PageStats MeasurePages() noexcept { return pages_.Stats(); }
  LargeCounts CountsOf(size_t group) noexcept { return pages_.CountsOf(group); }
  size_t metadata_used() noexcept { return metadata_.used(); }
  // When it was created or last reset, in milliseconds.
  uint64_t started() const noexcept { return started_; }
  // Differs between two arenas that have the same index or address one after the other.
  uint64_t serial() const noexcept { return serial_; }
  // Called in the child of a fork, with the arena's locks held.
  void ForgetOthers() noexcept {
    central_.ForgetHidden();
    pages_.ForgetBusy();
  }
  Occupancy OccupancyAt(const void* p) noexcept;

  unsigned index() const { return index_; }
  ExtentHooks* hooks = nullptr;
  int64_t decay[2] = {};  // dirty_decay_ms, muzzy_decay_ms
  char name[32] = {};
  std::atomic<Arena*> next{nullptr};  // in the list of all arenas, ArenaTotals::first

  // Calls visit(mutex) for each of its locks, in the lock order.
  template <class Visit>
  void ForEachMutex(Visit&& visit) noexcept {
    for (SizeClass c = 1; c < kNumClasses; ++c) visit(stashes_[c].mutex);
    for (SizeClass c = 1; c < kNumClasses; ++c) visit(central_.mutex(c));
    visit(pages_.mutex());
    visit(metadata_.mutex());
    visit(regions_lock_);
  }

 private:
  friend struct Hooked;
  friend struct DescriptorRows;

  struct Region {
    void* p;
    size_t bytes;
    bool hooked;  // from the hooks, for objects; otherwise from Linux, for metadata
  };
  static constexpr size_t kMostRegions = 2048;
  // With option hardened every arena has a cap, so that every allocation leaves the fast path.
  static constexpr size_t kNoCap = ~size_t{0};

  void Begin() noexcept;
  bool Claim(void* p, size_t bytes) noexcept;
  void* MapRegion(size_t bytes, size_t alignment, void* hint) noexcept;
  void UnmapRegion(void* p, size_t bytes) noexcept;
  void* AskHooks(size_t bytes, size_t alignment, void* hint) noexcept;
  void GiveToHooks(void* p, size_t bytes) noexcept;
  void Forget(const Region& region) noexcept;
  void PurgeExcess() noexcept;
  bool Charge(size_t bytes) noexcept;
  bool ChargeCapped(size_t bytes) noexcept;
  void Discharge(size_t bytes) noexcept { live_.fetch_sub(bytes, std::memory_order_relaxed); }
  void* AllocateLarge(size_t size, size_t alignment, bool zero) noexcept;
  void* TakeSmall(SizeClass c) noexcept;
  // With option hardened (arena_hardened.cc). Unseal returns the size of the object.
  static bool IsSealed(SizeClass c) noexcept {
    return options.hardened && c != kNoClass && IsSmall(c);
  }
  void* AllocateSealed(size_t size, size_t alignment, bool zero) noexcept;
  size_t RequireSealed(SizeClass c, const void* p, const char* verb) noexcept;
  size_t Unseal(SizeClass c, void* p) noexcept;
  bool Reseal(void* p, size_t size) noexcept;
  size_t Refill(SizeClass c, void** to, size_t n) noexcept;
  void Drain(SizeClass c, size_t n) noexcept;
  void FlushStashes() noexcept;
  void FreeUnstashed(SizeClass c, void* p) noexcept;
  size_t GoodSize(size_t size) noexcept;
  [[noreturn]] GRANARY_COLD void DieOf(const void* p, const char* verb) noexcept;

  unsigned index_ = 0;
  uint64_t started_ = 0;
  uint64_t serial_ = 0;
  std::atomic<size_t> live_{0};
  std::atomic<size_t> cap_{0};
  std::atomic<size_t> reported_used_{0}, reported_dirty_{0};
  Mutex<Linux> regions_lock_;
  size_t regions_count_ = 0;
  Metadata<Hooked> metadata_;
  PageHeap<Hooked> pages_;
  Central<Hooked> central_;
  Stash stashes_[kNumClasses];
  Region regions_[kMostRegions] = {};
  PageMap map_;
};

}  // namespace granary
