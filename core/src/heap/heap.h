// The layers, put together: what stands between the symbols a program calls and the system.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/compiler.h"
#include "base/misuse.h"
#include "central/central.h"
#include "config/options.h"
#include "depot/depot.h"
#include "front/front.h"
#include "layers/peaks.h"
#include "os/linux.h"
#include "pages/pages.h"
#include "profile/recorder.h"
#include "upkeep/upkeep.h"

namespace granary {

extern PageMap page_map __attribute__((visibility("hidden")));

class Arena;

// Of all arenas and heaps of granary/heap.h together.
struct ArenaTotals {
  std::atomic<size_t> count{0};
  std::atomic<size_t> used{0};         // bytes of their spans and blocks
  std::atomic<size_t> dirty{0};        // bytes free in them that still hold pages
  std::atomic<Arena*> first{nullptr};  // all of them, for a reader outside
};

class Heap {
 public:
  constexpr Heap() = default;

  // The slow halves of malloc and free: no cache could serve the request. They set errno as C
  // wants.
  void* Allocate(size_t size) noexcept;
  void* AllocateZeroed(size_t size) noexcept;
  // `alignment` is a power of two.
  void* AllocateAligned(size_t size, size_t alignment) noexcept;
  void Free(void* p) noexcept;
  // `size` is what the caller says it asked for.
  void FreeSized(void* p, size_t size, size_t alignment) noexcept;
  void* Reallocate(void* p, size_t size) noexcept;

  // The bytes of p that may be used; ends the program if p is not ours. `verb` names the call.
  size_t UsableSize(const void* p, const char* verb) noexcept;
  // What UsableSize would be of a fresh block of `size` bytes; 0 if no block can be that large.
  size_t GoodSize(size_t size, size_t alignment) noexcept;

  // The same past the caches, so that slabs are told at once. `size` must have a class or be large.
  void* AllocateUncached(size_t size, size_t alignment) noexcept;
  void FreeUncached(void* p) noexcept;
  // The bytes that p has now, after an attempt to give it `size` where it lies.
  size_t ResizeInPlace(void* p, size_t size) noexcept;

  // Gives everything free back to the system; returns the bytes given back.
  GRANARY_SELDOM size_t Trim() noexcept;
  // Sends what the caches hold through the checks of the slabs.
  void FlushCaches() noexcept;
  GRANARY_SELDOM void Verify() noexcept;

  // p, which this CPU's cache gave out for a request of `requested` bytes, is to be sampled.
  GRANARY_COLD __attribute__((returns_nonnull)) void* SampleDue(void* p, size_t requested) noexcept;
  // Switches sampling on: one in `rate` bytes. A seed of 0 stands for one from the clock. kAlready:
  // a profile was there and goes on, at that rate.
  enum class Started : uint8_t { kRefused, kFresh, kAlready };
  GRANARY_COLD Started StartProfile(uint64_t rate, uint64_t seed) noexcept;
  // Takes no more samples, and follows those there are.
  GRANARY_COLD void PauseProfile() noexcept;
  // Discards it, in the first case to begin anew if samples are taken.
  GRANARY_COLD bool ResetProfile() noexcept;
  GRANARY_COLD void StopProfile() noexcept;
  profile::Recorder<Linux>& profile() { return profile_; }

  // The options that layers keep copies of may have changed.
  void ApplyOptions() noexcept;

  GRANARY_SELDOM void PrepareFork() noexcept;
  GRANARY_SELDOM void AfterFork(bool child) noexcept;

  // The options and the layers are ready. Called by every slow path; cheap once it is so.
  void EnsureInit() noexcept {
    if (!ready_.load(std::memory_order_acquire)) Init();
  }

  PageHeap<Linux>& pages() { return pages_; }
  Central<Linux>& central() { return central_; }
  Depot<Linux>& depot() { return depot_; }
  Front<Linux>& front() { return front_; }
  Metadata<Linux>& metadata() { return metadata_; }
  Upkeep& upkeep() { return upkeep_; }
  Peaks& peaks() { return peaks_; }
  ArenaTotals& arenas() { return arenas_; }

 private:
  friend struct Layout;
  GRANARY_COLD void Init() noexcept;
  void* AllocateClass(SizeClass c, size_t requested) noexcept;
  GRANARY_COLD void Sample(void* p, SizeClass c, size_t bytes, size_t requested) noexcept;
  // p is about to be freed: true if it may be now, false if that has to wait.
  GRANARY_COLD bool Unsample(void* p) noexcept;
  // A large block has another size now.
  GRANARY_COLD void ResampleLarge(void* p, size_t size) noexcept;
  void CountLate(SizeClass c) noexcept;
  GRANARY_COLD void FillProfileHead() noexcept;
  GRANARY_COLD bool BeginProfile() noexcept;
  GRANARY_COLD void PauseSampling() noexcept;
  GRANARY_COLD void FreeDeferred() noexcept;
  void* AllocateLarge(size_t size, size_t alignment, size_t reserve, bool zero) noexcept;
  void* MoveToNew(void* p, size_t old_size, size_t size) noexcept;
  void* ReallocateLarge(void* p, size_t old_size, size_t size) noexcept;
  GRANARY_COLD void FreeOfArena(void* p) noexcept;
  GRANARY_COLD void* MoveInArena(Arena& arena, void* p, size_t size) noexcept;
  GRANARY_COLD void* AllocateSpecial(size_t size, size_t alignment, bool zero) noexcept;
  GRANARY_COLD void FreeSpecial(void* p) noexcept;
  GRANARY_COLD void* ReallocateSpecial(void* p, size_t size) noexcept;
  void* Filled(void* p, size_t size) noexcept;
  GRANARY_COLD void* Refused(size_t size) noexcept;
  GRANARY_COLD void JunkFreed(SizeClass c, void* p) noexcept;
  [[noreturn]] GRANARY_COLD void DieOf(const void* p, const char* verb) noexcept;
  template <class Visit>
  void ForEachMutex(Visit&& visit) noexcept;

  // First, on a page that is in use anyway.
  Mutex<Linux> init_;
  std::atomic<bool> ready_{false};
  Peaks peaks_;
  profile::Recorder<Linux> profile_;
  Metadata<Linux> metadata_;
  PageHeap<Linux> pages_;
  Central<Linux> central_;
  Depot<Linux> depot_;
  Front<Linux> front_;
  Upkeep upkeep_;
  ArenaTotals arenas_;  // last: few processes touch it
};

extern Heap heap __attribute__((visibility("hidden")));

// The top of a list of this CPU's cache, sampled if that is due; nullptr if it is empty.
GRANARY_ALWAYS_INLINE void* TakeCached(uint64_t list, size_t requested) {
  return arch::Pop(list, [requested](void* p) { return heap.SampleDue(p, requested); });
}

}  // namespace granary
