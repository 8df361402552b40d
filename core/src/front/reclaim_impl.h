// Reclaim, flush and stop: work on a cache by a thread that does not use it. To stop a cache, the
// thread puts the null cache in its row of the cache table and makes the kernel abort every
// critical section in progress. After that no other thread uses the words of the cache.
#pragma once

#include "front/front.h"

namespace granary {

template <Os System, class Below>
bool Front<System, Below>::Stop(size_t index) noexcept {
  CacheOf* const cache = caches_[index].load(std::memory_order_acquire);
  if (cache == nullptr || threads.owner() != CacheOwner::kCpu) return false;
  cache->stopped.store(true, std::memory_order_relaxed);
  Publish(index, anchor.null_cache);
  return true;
}

template <Os System, class Below>
void Front<System, Below>::Resume(size_t index) noexcept {
  CacheOf* const cache = caches_[index].load(std::memory_order_relaxed);
  if (cache == nullptr || !cache->stopped.load(std::memory_order_relaxed)) return;
  cache->lock.Unlock();
  Publish(index, cache->words);
  cache->stopped.store(false, std::memory_order_release);
}

template <Os System, class Below>
bool Front<System, Below>::StopAll() noexcept {
  create_.Lock();  // so that no thread creates a cache that is not stopped
  const size_t end = caches_end_.load(std::memory_order_acquire);
  for (size_t i = 0; i < end; ++i) {
    if (Stop(i)) caches_[i].load(std::memory_order_relaxed)->lock.Lock();
  }
  return threads.owner() == CacheOwner::kCpu && System::AbortRestartables();
}

template <Os System, class Below>
void Front<System, Below>::ResumeAll() noexcept {
  const size_t end = caches_end_.load(std::memory_order_acquire);
  for (size_t i = 0; i < end; ++i) Resume(i);
  create_.Unlock();
}

// Whether the ready list of class c, which is in use, was not used since the last interval.
template <Os System, class Below>
bool Front<System, Below>::IsLeft(CacheOf& cache, SizeClass c) noexcept {
  return HasReady(c) && !cache.IsIdle(c) && cache.IsReadyIdle(c);
}

// The bytes of objects in idle classes.
template <Os System, class Below>
size_t Front<System, Below>::IdleBytes(CacheOf& cache) noexcept {
  size_t idle = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    if (IsLeft(cache, c)) idle += cache.ReadyObjects(c) * kClassSize[c];
    if (!cache.IsIdle(c)) continue;
    const size_t held = (cache.Header(c) & kCursorMask) - cache.Floor(c);
    if (held <= cache.capacity[c]) idle += (held + cache.ReadyObjects(c)) * kClassSize[c];
  }
  return idle;
}

template <Os System, class Below>
void Front<System, Below>::DrainList(CacheOf& cache, SizeClass c, uint64_t list) noexcept {
  void* batch[kBatch];
  for (size_t count; (count = exclusive::PopMany(cache.words, list, batch, kBatch)) > 0;) {
    depot_->Return(c, batch, count);
  }
}

template <Os System, class Below>
void Front<System, Below>::DrainClass(CacheOf& cache, SizeClass c) noexcept {
  if (HasReady(c)) DrainList(cache, c, ReadyList(c));
  if (cache.capacity[c] == 0) return;
  DrainList(cache, c, c);
  cache.Revoke(c);
}

template <Os System, class Below>
void Front<System, Below>::Drain(CacheOf& cache, bool only_idle) noexcept {
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    if (!only_idle || cache.IsIdle(c)) {
      DrainClass(cache, c);
    } else if (IsLeft(cache, c)) {
      DrainList(cache, c, ReadyList(c));
    }
  }
}

template <Os System, class Below>
void Front<System, Below>::ReclaimIdle() noexcept {
  const size_t end = caches_end_.load(std::memory_order_acquire);
  bool any = false;
  const bool rearm = rearm_pending_.exchange(false, std::memory_order_relaxed);
  for (size_t i = 0; i < end; ++i) {
    CacheOf* const cache = caches_[i].load(std::memory_order_acquire);
    if (cache == nullptr || (!rearm && IdleBytes(*cache) < kMinReclaim) || !Stop(i)) continue;
    cache->lock.Lock();
    any = true;
  }
  const bool aborted = any && System::AbortRestartables();
  for (size_t i = 0; i < end; ++i) {
    CacheOf* const cache = caches_[i].load(std::memory_order_acquire);
    if (cache == nullptr) continue;
    if (aborted && cache->stopped.load(std::memory_order_relaxed)) {
      Drain(*cache, true);
      if (rearm) RearmStopped(*cache);
    }
    cache->RecordHeaders();
    Resume(i);
  }
}

template <Os System, class Below>
void Front<System, Below>::DrainCaller(SizeClass c, uint64_t list) noexcept {
  void* batch[kBatch];
  for (size_t count; (count = arch::PopMany(list, batch, kBatch)) > 0;)
    depot_->Return(c, batch, count);
}

template <Os System, class Below>
void Front<System, Below>::DrainCaller() noexcept {
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    DrainCaller(c, c);
    if (HasReady(c)) DrainCaller(c, ReadyList(c));
  }
}

template <Os System, class Below>
void Front<System, Below>::Flush() noexcept {
  const bool stopped = StopAll();
  if (stopped) {
    ForEachCache([&](CacheOf& cache) {
      if (cache.stopped.load(std::memory_order_relaxed)) Drain(cache, false);
    });
  }
  ResumeAll();
  if (!stopped) DrainCaller();
  for (Shared& shared : shared_) {
    Locked hold(shared.mutex);
    if (shared.cache != nullptr) Drain(*shared.cache, false);
  }
}

template <Os System, class Below>
void Front<System, Below>::ResetLocks() noexcept {
  for (Shared& shared : shared_) shared.mutex.Reset();
}

template <Os System, class Below>
void Front<System, Below>::Forget(size_t index, bool drain) noexcept {
  CacheOf* const cache = caches_[index].load(std::memory_order_acquire);
  if (cache == nullptr) return;
  // The fork may have copied the cache during a change, so the next owner gets a new one.
  if (!drain) {
    for (SizeClass c = 1; c < kNumClasses; ++c) {
      uncached_[c].fetch_add(cache->Allocations(c), std::memory_order_relaxed);
    }
    Publish(index, anchor.null_cache);
    caches_[index].store(nullptr, std::memory_order_release);
    return;
  }
  Locked hold(cache->lock);
  Drain(*cache, false);
}

}  // namespace granary
