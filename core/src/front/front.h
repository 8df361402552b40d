// The front: the CPU caches, which serve nearly every malloc and free. The fast path is arch::Pop
// and arch::Push; Front has the slow path, after a miss or an overflow.
#pragma once

#include <atomic>
#include <cstddef>

#include "depot/depot.h"
#include "front/cache.h"
#include "front/growth.h"
#include "front/ready_trials.h"
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

  // Call it before any other function.
  void Init() noexcept;

  // Fills the empty ready list of class c with the group of recently freed objects on top of list
  // c. Returns false if there is less than a group, or the class has no ready list.
  GRANARY_ALWAYS_INLINE bool MoveGroup(SizeClass c) noexcept {
    if (!UsesReady(c) || !KeepsReady(c)) return false;
    void* objects[kGroup];
    if (!arch::PopGroup(c, objects, kCacheLayout.long_floor[c] + kGroup)) return false;
    // A push fails if the list has no slots yet, or the thread moved to a CPU whose list has
    // objects.
    if (!arch::PushGroup(ReadyList(c), objects, kCacheLayout.ready_floor[c])) [[unlikely]]
      StoreReady(c, objects, kGroup);
    return true;
  }
  // As MoveGroup, but also with less than a group.
  bool RefillReady(SizeClass c) noexcept;
  // Allocates an object of class c after a miss; nullptr when the system refuses memory. Sets *due
  // if the allocation is a sample.
  void* Allocate(SizeClass c, bool* due) noexcept;
  // Frees p, an object of class c, after an overflow.
  void Free(SizeClass c, void* p) noexcept;

  // Arms every cache for samples of one in `rate` bytes; 0 for no samples. One caller at a time; no
  // other thread stops caches during the call. Returns false if some cache cannot be stopped.
  bool SetSampling(uint64_t rate, uint64_t seed) noexcept;
  Sampling& sampling() { return sampling_; }
  // Call it after arch::Pop reported that the count of class c ran out.
  void Rearm(SizeClass c) noexcept;
  // Returns the number of samples of class c that were due while a cache waited for its next count,
  // and resets the number to zero.
  uint64_t ResetLate(SizeClass c) noexcept {
    return late_[c].exchange(0, std::memory_order_relaxed);
  }

  // Sets the limit in bytes for the sum of the capacities of one cache.
  void SetBudget(size_t bytes) { budget_.store(bytes, std::memory_order_relaxed); }
  // Classes above c are not cached. Call it after Init and before the first allocation.
  void SetLargestCached(SizeClass c) { largest_cached_ = c; }

  // Flushes the classes that were not used since the last call from each cache with at least
  // kMinReclaim idle bytes. One caller at a time.
  void ReclaimIdle() noexcept;
  // Flushes every cache that can be stopped, the shared caches and the caller's own cache.
  void Flush() noexcept;

  // Between StopAll and ResumeAll no thread uses a CPU cache: for a fork, and for reading or
  // changing the caches from another thread. StopAll returns false for thread caches, which cannot
  // be stopped.
  bool StopAll() noexcept;
  void ResumeAll() noexcept;
  // For the child of a fork: call it before ResumeAll.
  void ResetLocks() noexcept;
  // Call it when the thread that owned cache `index` has exited. With drain = false the thread does
  // not exist in this child of a fork, and the objects of its cache are lost.
  void Forget(size_t index, bool drain) noexcept;

  // The number of objects of class c in all caches, read while other threads change it.
  size_t CachedObjects(SizeClass c) noexcept;
  // The number of allocations of class c so far.
  uint64_t Allocations(SizeClass c) noexcept;
  // Counts an allocation of class c that used no cache.
  void CountUncached(SizeClass c) noexcept { uncached_[c].fetch_add(1, std::memory_order_relaxed); }
  // The number of caches, and the sum of their capacities in bytes.
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
  friend struct DescriptorRows;
  static constexpr size_t kBatch = Below::kMagazine;
  static constexpr size_t kSharedCaches = 8;
  static constexpr size_t kMinReclaim = 16 * kKiB;

  // A shared cache, for threads without restartable sequences that own no cache.
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
  size_t FetchFew(SizeClass c, void** to, size_t n) noexcept;
  void ReturnFew(SizeClass c, void* const* from, size_t n) noexcept;
  void* AllocateShared(SizeClass c) noexcept;
  void FreeShared(SizeClass c, void* p) noexcept;
  void* AllocateUncached(SizeClass c) noexcept;
  bool KeepsReady(SizeClass c) noexcept;
  void TakeBackReady(CacheOf* cache, SizeClass c) noexcept;
  GRANARY_COLD void StoreReady(SizeClass c, void** objects, size_t n) noexcept;
  void RequireNotOnTop(SizeClass c, void* p) noexcept;
  void StoreBatch(CacheOf* cache, SizeClass c, void** objects, size_t n) noexcept;
  void MakeRoom(CacheOf* cache, SizeClass c) noexcept;
  bool CountInHeader(CacheOf* cache, SizeClass c) noexcept;
  void GrowAfterMiss(CacheOf* cache, SizeClass c) noexcept;
  bool GrowAfterOverflow(CacheOf* cache, SizeClass c) noexcept;
  bool Grow(CacheOf* cache, SizeClass c) noexcept;
  void Arm(CacheOf& cache) noexcept;
  void RearmStopped(CacheOf& cache) noexcept;
  bool RearmCurrent(CacheOf* cache, SizeClass c) noexcept;
  bool RearmList(CacheOf* cache, SizeClass c, uint64_t list) noexcept;
  void ArmOwn(CacheOf* cache, size_t index) noexcept;
  void AddLate(SizeClass c, uint64_t late) noexcept;
  bool Stop(size_t index) noexcept;
  void Resume(size_t index) noexcept;
  size_t IdleBytes(CacheOf& cache) noexcept;
  void Drain(CacheOf& cache, bool only_idle) noexcept;
  bool IsLeft(CacheOf& cache, SizeClass c) noexcept;
  void DrainClass(CacheOf& cache, SizeClass c) noexcept;
  void DrainList(CacheOf& cache, SizeClass c, uint64_t list) noexcept;
  void DrainCaller(SizeClass c, uint64_t list) noexcept;
  void DrainCaller() noexcept;

  Metadata<System>* metadata_ = nullptr;
  Below* depot_ = nullptr;
  Mutex<System> create_;
  std::atomic<size_t> budget_{0};
  SizeClass largest_cached_ = kNoClass;
  std::atomic<size_t> caches_end_{0};  // greater than every index in use
  std::atomic<CacheOf*> caches_[kMaxCaches] = {};
  std::atomic<uint64_t> uncached_[kNumClasses] = {};  // allocations that no header counted
  Shared shared_[kSharedCaches];
  Sampling sampling_;
  ReadyTrials trials_;
  std::atomic<bool> rearm_pending_{false};  // a count ran out and could not be set
  std::atomic<uint64_t> late_[kNumClasses] = {};
};

}  // namespace granary

#include "front/arm_impl.h"
#include "front/front_impl.h"
#include "front/reclaim_impl.h"
