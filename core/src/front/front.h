// The caches of the CPUs: what malloc and free touch on nearly every call. The fast path is
// arch::Pop and arch::Push; this is what happens when they say no.
#pragma once

#include <atomic>
#include <cstddef>

#include "depot/depot.h"
#include "front/cache.h"
#include "front/growth.h"
#include "front/sampling.h"
#include "front/threads.h"

namespace granary {

template <Os System, class Below = Depot<System>>
class Front {
 public:
  using CacheOf = Cache<System>;

  constexpr Front() = default;
  constexpr Front(Metadata<System>& metadata, Below& depot)
      : metadata_(&metadata), depot_(&depot) {}
  void Bind(Metadata<System>& metadata, Below& depot) noexcept {
    metadata_ = &metadata;
    depot_ = &depot;
  }

  // Before any other call.
  void Init() noexcept;

  // Fills the ready list of class c, which ran empty, with a block of what was freed last; false if
  // there is less, or the class has no such list.
  GRANARY_ALWAYS_INLINE bool MoveBlock(SizeClass c) noexcept {
    if (!UsesReady(c)) return false;
    void* objects[kBlock];
    if (!arch::PopBlock(c, objects, kCacheLayout.long_floor[c] + kBlock)) return false;
    if (!arch::PushBlock(ReadyList(c), objects, kCacheLayout.ready_floor[c])) [[unlikely]]
      PutReady(c, objects, kBlock);  // it has no slots yet, or is another CPU's and not empty
    return true;
  }
  // Likewise, also with less than a block.
  bool RefillReady(SizeClass c) noexcept;
  // An object of class c, when the cache had none; nullptr when the system refuses memory.
  void* Allocate(SizeClass c, bool* due) noexcept;
  // Takes p, an object of class c, when the cache was full.
  void Free(SizeClass c, void* p) noexcept;

  // Every cache is to count down to samples of one in `rate` bytes; 0 for none. One caller at a
  // time, and nobody stops caches meanwhile. False if some cannot be stopped.
  bool SetSampling(uint64_t rate, uint64_t seed) noexcept;
  Sampling& sampling() { return sampling_; }
  // After arch::Pop said that the count of class c ran out.
  void Rearm(SizeClass c) noexcept;
  // Samples of class c that fell due while a cache waited for its next countdown, since last asked.
  uint64_t TakeLate(SizeClass c) noexcept {
    return late_[c].exchange(0, std::memory_order_relaxed);
  }

  // How many bytes the capacities of one cache may add up to.
  void SetBudget(size_t bytes) { budget_.store(bytes, std::memory_order_relaxed); }
  // Classes above this one are not cached; after Init, before the first allocation.
  void SetLargestCached(SizeClass c) { largest_cached_ = c; }

  // Gives what lay in the caches untouched since the last call to the slabs; one caller at a time.
  void ReclaimIdle() noexcept;
  // Empties every cache that can be stopped, and the caller's own.
  void Flush() noexcept;

  // Around a fork, and around any look at the caches from outside: no cache is in use in between.
  // False if some cannot be stopped (caches that belong to threads).
  bool StopAll() noexcept;
  void ResumeAll() noexcept;
  // In the child of a fork, before ResumeAll: locks are free.
  void ResetLocks() noexcept;
  // The thread that owned cache `index` has ended (or, with drain = false, does not exist in this
  // child of a fork: what its cache held is lost).
  void Forget(size_t index, bool drain) noexcept;

  // Objects and bytes in all caches, read while they change.
  size_t CachedObjects(SizeClass c) noexcept;
  // Allocations of class c so far.
  uint64_t Allocations(SizeClass c) noexcept;
  // An allocation of class c that went past the caches.
  void CountUncached(SizeClass c) noexcept { uncached_[c].fetch_add(1, std::memory_order_relaxed); }
  // Caches, and the bytes of objects they have room for.
  size_t Caches() noexcept;
  size_t Capacity() noexcept;
  uint64_t Contentions() noexcept;

  // Calls visit(cache) for each cache that exists.
  template <class Visit>
  void ForEachCache(Visit&& visit) noexcept {
    const size_t end = caches_end_.load(std::memory_order_acquire);
    for (size_t i = 0; i < end; ++i) {
      CacheOf* const cache = caches_[i].load(std::memory_order_acquire);
      if (cache != nullptr) visit(*cache);
    }
    for (Shared& shared : shared_) {
      if (shared.cache != nullptr) visit(*shared.cache);
    }
  }

 private:
  friend struct Layout;
  static constexpr size_t kBatch = Below::kMagazine;
  static constexpr size_t kSharedCaches = 8;
  static constexpr size_t kWorthReclaiming = 16 * kKiB;

  // For threads without restartable sequences beyond those that own a cache.
  struct alignas(kCacheLine) Shared {
    Mutex<System> mutex;
    CacheOf* cache = nullptr;
  };

  static void Publish(size_t index, CacheWords* words) noexcept {
    __atomic_store_n(&anchor.cache[kUnregisteredIndices + index], words, __ATOMIC_RELEASE);
  }
  CacheOf* Current() noexcept;
  CacheOf* Create(size_t index) noexcept;
  CacheOf* NewCache() noexcept;
  Shared& SharedOfThread() noexcept;
  void* AllocateShared(SizeClass c) noexcept;
  void FreeShared(SizeClass c, void* p) noexcept;
  void* AllocateUncached(SizeClass c) noexcept;
  GRANARY_COLD void PutReady(SizeClass c, void** objects, size_t n) noexcept;
  void Keep(CacheOf* cache, SizeClass c, void** objects, size_t n) noexcept;
  void MakeRoom(CacheOf* cache, SizeClass c) noexcept;
  void GrowAfterMiss(CacheOf* cache, SizeClass c) noexcept;
  bool GrowAfterOverflow(CacheOf* cache, SizeClass c) noexcept;
  bool Grow(CacheOf* cache, SizeClass c) noexcept;
  void Arm(CacheOf& cache) noexcept;
  void RearmStopped(CacheOf& cache) noexcept;
  bool RearmCurrent(CacheOf* cache, SizeClass c) noexcept;
  void ArmOwn(CacheOf* cache, size_t index) noexcept;
  void CountLate(SizeClass c, uint64_t late) noexcept;
  bool Stop(size_t index) noexcept;
  void Resume(size_t index) noexcept;
  size_t NoteIdle(CacheOf& cache) noexcept;
  void Drain(CacheOf& cache, bool only_idle) noexcept;
  void DrainClass(CacheOf& cache, SizeClass c) noexcept;
  void DrainList(CacheOf& cache, SizeClass c, uint64_t list) noexcept;
  void DrainCaller(SizeClass c, uint64_t list) noexcept;
  void DrainCaller() noexcept;

  Metadata<System>* metadata_ = nullptr;
  Below* depot_ = nullptr;
  Mutex<System> create_;
  std::atomic<size_t> budget_{0};
  SizeClass largest_cached_ = kNoClass;
  std::atomic<size_t> caches_end_{0};  // indices in use are below this
  std::atomic<CacheOf*> caches_[kMaxCaches] = {};
  std::atomic<uint64_t> uncached_[kNumClasses] = {};  // allocations that no header counted
  Shared shared_[kSharedCaches];
  Sampling sampling_;
  std::atomic<bool> stale_{false};  // a count ran out and could not be set at once
  std::atomic<uint64_t> late_[kNumClasses] = {};
};

}  // namespace granary

#include "front/arm_impl.h"
#include "front/front_impl.h"
#include "front/reclaim_impl.h"
