// The slow path: misses, overflows and the statistics of the caches.
#pragma once

#include <algorithm>

#include "front/front.h"

namespace granary {

template <Os System, class Below>
void Front<System, Below>::Init() noexcept {
  budget_.store(2 * kMiB, std::memory_order_relaxed);
  largest_cached_ = kNumClasses - 1;
  threads.Init(System::CpuCount());
  const bool by_cpu = threads.owner() == CacheOwner::kCpu;
  const size_t end = by_cpu ? System::CpuLimit() : kMaxCaches;
  for (size_t i = 0; i < end; ++i) Publish(i, anchor.null_cache);
}

// The cache that this thread uses at this moment; the thread may use another one at the next
// instruction. nullptr if the thread has no cache or the cache is stopped.
template <Os System, class Below>
Cache<System>* Front<System, Below>::Current() noexcept {
  if (thread_area == 0) threads.Register();
  const int index = CurrentIndex();
  if (index < 0) return nullptr;
  CacheOf* const cache = caches_[index].load(std::memory_order_acquire);
  if (cache == nullptr) return Create(static_cast<size_t>(index));
  if (threads.owner() == CacheOwner::kThread && cache->epoch != sampling_.epoch()) [[unlikely]] {
    ArmOwn(cache, static_cast<size_t>(index));
  }
  return cache->stopped.load(std::memory_order_relaxed) ? nullptr : cache;
}

template <Os System, class Below>
Cache<System>* Front<System, Below>::NewCache() noexcept {
  auto* const cache = static_cast<CacheOf*>(metadata_->Allocate(sizeof(CacheOf)));
  if (cache != nullptr) cache->Init();
  return cache;
}

template <Os System, class Below>
Cache<System>* Front<System, Below>::Create(size_t index) noexcept {
  Locked hold(create_);
  CacheOf* cache = caches_[index].load(std::memory_order_relaxed);
  if (cache != nullptr) return cache;
  cache = NewCache();
  if (cache == nullptr) return nullptr;
  if (sampling_.on()) Arm(*cache);
  cache->epoch = sampling_.epoch();
  caches_[index].store(cache, std::memory_order_release);
  if (caches_end_.load(std::memory_order_relaxed) <= index) caches_end_.store(index + 1);
  Publish(index, cache->words);
  return cache;
}

// Many thread caches keep to their short regions, which are on few pages.
template <Os System, class Below>
bool Front<System, Below>::Grow(CacheOf* cache, SizeClass c) noexcept {
  if (c > largest_cached_) return false;
  if (threads.Crowded() && cache->capacity[c] >= ShortCapacity(c)) return false;
  return Growth<System>::Grow(
      cache, c, budget_.load(std::memory_order_relaxed),
      [&](void* const* objects, size_t n) { depot_->Return(c, objects, n); });
}

// Below the size of a batch, each miss and each overflow grows the capacity, so that whole
// magazines move. Above it, only a class that both misses and overflows gets more slots.
template <Os System, class Below>
void Front<System, Below>::GrowAfterMiss(CacheOf* cache, SizeClass c) noexcept {
  cache->missed[c] = true;
  if (cache->capacity[c] < Below::BatchOf(c) || cache->overflowed[c]) Grow(cache, c);
}

template <Os System, class Below>
bool Front<System, Below>::GrowAfterOverflow(CacheOf* cache, SizeClass c) noexcept {
  cache->overflowed[c] = true;
  const bool below_batch = cache->capacity[c] < Below::BatchOf(c);
  return (below_batch || cache->missed[c]) && Grow(cache, c);
}

// Many thread caches, and the shared caches, keep to their short regions: less than a batch.
template <Os System, class Below>
size_t Front<System, Below>::FetchFew(SizeClass c, void** to, size_t n) noexcept {
  return threads.Crowded() ? depot_->FetchSome(c, to, n) : depot_->Fetch(c, to, n);
}

template <Os System, class Below>
void Front<System, Below>::ReturnFew(SizeClass c, void* const* from, size_t n) noexcept {
  if (threads.Crowded()) return depot_->ReturnSome(c, from, n);
  depot_->Return(c, from, n);
}

template <Os System, class Below>
void* Front<System, Below>::AllocateUncached(SizeClass c) noexcept {
  void* p;
  if (depot_->Fetch(c, &p, 1) == 0) return nullptr;
  CountUncached(c);
  return p;
}

// Whether class c, which uses its ready list, goes on to use it.
template <Os System, class Below>
bool Front<System, Below>::KeepsReady(SizeClass c) noexcept {
  if (!ReadyTrials::On()) return true;
  CacheOf* const cache = Current();
  if (cache == nullptr) return true;
  if (!cache->NoteMove(c)) return trials_.End(c), false;
  if (!cache->MovesAreDue(c) || cache->NoteMoves(c, System::NowNanos())) return true;
  UseReady(c, false);
  return false;
}

// Moves the objects that stayed in the ready list when class c lost it to list c.
template <Os System, class Below>
void Front<System, Below>::TakeBackReady(CacheOf* cache, SizeClass c) noexcept {
  if (UsesReady(c) || cache->ReadyObjects(c) == 0) return;
  void* objects[kGroup];
  const size_t n = arch::PopMany(ReadyList(c), objects, kGroup);
  const size_t kept = arch::PushMany(c, objects, n);
  depot_->Return(c, objects + kept, n - kept);
}

template <Os System, class Below>
bool Front<System, Below>::RefillReady(SizeClass c) noexcept {
  if (MoveGroup(c)) return true;
  if (!UsesReady(c)) return false;
  if (CacheOf* const cache = Current(); cache == nullptr || cache->FetchInstead(c)) return false;
  void* objects[kGroup];
  const size_t n = arch::PopMany(c, objects, kGroup);
  std::reverse(objects, objects + n);
  StoreReady(c, objects, n);
  return n > 0;
}

// Stores n objects of class c in the ready list, and the rest in list c or the depot.
template <Os System, class Below>
void Front<System, Below>::StoreReady(SizeClass c, void** objects, size_t n) noexcept {
  if (CacheOf* const cache = Current(); cache != nullptr) Growth<System>::GrantReady(cache, c);
  const size_t kept = arch::PushMany(ReadyList(c), objects, n);
  const size_t back = arch::PushMany(c, objects + kept, n - kept);
  depot_->Return(c, objects + kept + back, n - kept - back);
}

// Stores n objects in the cache so that malloc pops the last one first.
template <Os System, class Below>
void Front<System, Below>::StoreBatch(CacheOf* cache, SizeClass c, void** objects,
                                      size_t n) noexcept {
  if (UsesReady(c)) {
    Growth<System>::GrantReady(cache, c);
    if (n >= kGroup &&
        arch::PushGroup(ReadyList(c), objects + n - kGroup, kCacheLayout.ready_floor[c])) {
      n -= kGroup;
    } else {
      const size_t first = n < kReadySlots ? n : kReadySlots;
      const size_t kept = arch::PushMany(ReadyList(c), objects + (n - first), first);
      std::move(objects + (n - first) + kept, objects + n, objects + (n - first));
      n -= kept;
    }
  }
  const size_t kept = arch::PushMany(c, objects, n);
  depot_->Return(c, objects + kept, n - kept);
}

template <Os System, class Below>
void* Front<System, Below>::Allocate(SizeClass c, bool* due) noexcept {
  CacheOf* const cache = Current();
  *due = sampling_.Chosen(kClassSize[c]);  // for an allocation that no header counts
  if (cache == nullptr) return CurrentIndex() < 0 ? AllocateShared(c) : AllocateUncached(c);
  bool counted_due = false;
  TakeBackReady(cache, c);
  // A new cache, or the cache of another CPU that the thread moved to, may have objects.
  if (void* p = arch::Pop(PopList(c), &counted_due); p != nullptr) {
    if (counted_due) Rearm(c);
    *due = counted_due && sampling_.on();
    return p;
  }
  if (sampling_.on() && cache->RanOut(PopList(c))) [[unlikely]]
    RearmCurrent(cache, c);
  GrowAfterMiss(cache, c);
  size_t want = cache->capacity[c];
  if (want > Below::BatchOf(c)) want = Below::BatchOf(c);
  if (want == 0) return AllocateUncached(c);
  // Half full, a short list lasts longest: the next call may be a free.
  if (threads.Crowded()) want = want / 2 + 1;
  void* batch[kBatch];
  const size_t got = FetchFew(c, batch, want);
  if (got == 0) return nullptr;
  if (CountInHeader(cache, c)) {
    *due = false;
  } else {
    CountUncached(c);
  }
  // The batch ends with the object to use first: the caller gets it, and malloc pops the one before
  // it next.
  StoreBatch(cache, c, batch, got - 1);
  return batch[got - 1];
}

// Counts an allocation of class c that pops no object. False if the thread left the CPU of `cache`,
// or the next allocation that the header counts is a sample.
template <Os System, class Below>
bool Front<System, Below>::CountInHeader(CacheOf* cache, SizeClass c) noexcept {
  const uint64_t header = cache->Header(c);
  constexpr uint64_t kOne = uint64_t{1} << kCountShift;
  return header >= kOne && arch::CompareStore(cache->words, c, header, header - kOne);
}

// Moves a batch of the full class c to the depot; half of the capacity if that is less.
template <Os System, class Below>
void Front<System, Below>::MakeRoom(CacheOf* cache, SizeClass c) noexcept {
  void* batch[kBatch];
  const size_t whole = Below::BatchOf(c);
  if (arch::PopRun(c, batch, whole, kCacheLayout.long_floor[c] + whole)) {
    return depot_->Return(c, batch, whole);
  }
  const size_t half = (cache->capacity[c] + size_t{1}) / 2;
  const size_t count = arch::PopMany(c, batch, half < whole ? half : whole);
  std::reverse(batch, batch + count);
  ReturnFew(c, batch, count);
}

// A push fails if p may be one of the two top pointers. Pops both to compare them: only an
// operation on the array reads header and slots of the same moment.
template <Os System, class Below>
void Front<System, Below>::RequireNotOnTop(SizeClass c, void* p) noexcept {
  void* top[2];
  for (size_t count = arch::PopMany(c, top, 2), i = count; i-- > 0;) {
    if (top[i] == p) Die(MisuseReport{Misuse::kDoubleFree, "free", p, kClassSize[c], 0});
    if (!arch::Push(c, top[i])) depot_->Return(c, &top[i], 1);
  }
}

template <Os System, class Below>
void Front<System, Below>::Free(SizeClass c, void* p) noexcept {
  CacheOf* const cache = Current();
  if (cache == nullptr) {
    if (CurrentIndex() < 0) return FreeShared(c, p);
    return depot_->Return(c, &p, 1);
  }
  if (arch::Push(c, p)) return;
  RequireNotOnTop(c, p);
  if (GrowAfterOverflow(cache, c) && arch::Push(c, p)) return;
  MakeRoom(cache, c);
  if (!arch::Push(c, p)) depot_->Return(c, &p, 1);
}

template <Os System, class Below>
typename Front<System, Below>::Shared& Front<System, Below>::SharedOfThread() noexcept {
  // The thread pointer differs between threads, but mostly not in its low bits: hash it.
  const uintptr_t id = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  return shared_[(id * 0x9e3779b97f4a7c15u) >> 61];
}

template <Os System, class Below>
void* Front<System, Below>::AllocateShared(SizeClass c) noexcept {
  static_assert(kSharedCaches == 8, "SharedOfThread hashes to three bits");
  if (c > largest_cached_) return AllocateUncached(c);
  Shared& shared = SharedOfThread();
  Locked hold(shared.mutex);
  if (shared.cache == nullptr) shared.cache = NewCache();
  if (shared.cache == nullptr) return AllocateUncached(c);
  CacheOf& cache = *shared.cache;
  if (void* p = exclusive::Pop(cache.words, c); p != nullptr) return p;
  cache.Grant(c);
  void* batch[kBatch];
  const size_t got = FetchFew(c, batch, ShortCapacity(c));
  const size_t kept = exclusive::PushMany(cache.words, c, batch, got);
  depot_->Return(c, batch + kept, got - kept);
  return exclusive::Pop(cache.words, c);
}

template <Os System, class Below>
void Front<System, Below>::FreeShared(SizeClass c, void* p) noexcept {
  Shared& shared = SharedOfThread();
  Locked hold(shared.mutex);
  if (shared.cache == nullptr || c > largest_cached_) return depot_->Return(c, &p, 1);
  CacheOf& cache = *shared.cache;
  cache.Grant(c);
  if (exclusive::PushMany(cache.words, c, &p, 1) == 1) return;
  void* batch[kBatch];
  const size_t count = exclusive::PopMany(cache.words, c, batch, (cache.capacity[c] + 1) / 2);
  ReturnFew(c, batch, count);
  exclusive::PushMany(cache.words, c, &p, 1);
}

template <Os System, class Below>
size_t Front<System, Below>::CachedObjects(SizeClass c) noexcept {
  size_t count = 0;
  ForEachCache([&](CacheOf& cache) {
    const size_t cursor = cache.Header(c) & kCursorMask;
    const bool is_long = cursor >= kCacheLayout.long_floor[1];
    count += cursor - (is_long ? kCacheLayout.long_floor[c] : kCacheLayout.short_floor[c]);
    count += cache.ReadyObjects(c);
  });
  return count;
}

template <Os System, class Below>
size_t Front<System, Below>::Caches() noexcept {
  size_t count = 0;
  ForEachCache([&](CacheOf&) { ++count; });
  return count;
}

template <Os System, class Below>
size_t Front<System, Below>::Capacity() noexcept {
  size_t bytes = 0;
  ForEachCache([&](CacheOf& cache) { bytes += cache.granted.load(std::memory_order_relaxed); });
  return bytes;
}

template <Os System, class Below>
uint64_t Front<System, Below>::Contentions() noexcept {
  uint64_t count = create_.contentions();
  ForEachCache([&](CacheOf& cache) { count += cache.lock.contentions(); });
  for (Shared& shared : shared_) count += shared.mutex.contentions();
  return count;
}

template <Os System, class Below>
uint64_t Front<System, Below>::Allocations(SizeClass c) noexcept {
  uint64_t count = uncached_[c].load(std::memory_order_relaxed);
  ForEachCache([&](CacheOf& cache) { count += cache.Allocations(c); });
  return count;
}

}  // namespace granary
