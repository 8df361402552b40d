// Arming: setting the allocation counts in the headers of caches. A count is set while the cache is
// stopped, or by the thread whose allocation was a sample.
#pragma once

#include "front/front.h"

namespace granary {

// Draws a count for every class. The caller has exclusive use of the cache.
template <Os System, class Below>
void Front<System, Below>::Arm(CacheOf& cache) noexcept {
  cache.epoch = sampling_.epoch();
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    ForEachList(c, [&](uint64_t list) { cache.SetCount(c, list, sampling_.Draw(c)); });
  }
}

// Draws a count for each class whose count ran out and was not set again. The cache is stopped.
template <Os System, class Below>
void Front<System, Below>::RearmStopped(CacheOf& cache) noexcept {
  if (cache.epoch != sampling_.epoch()) return;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    ForEachList(c, [&](uint64_t list) {
      if (!cache.RanOut(list)) return;
      uint64_t late;
      cache.SetCount(c, list, sampling_.DrawAfter(c, kCountMask - cache.Count(list), &late));
      AddLate(c, late);
    });
  }
}

template <Os System, class Below>
void Front<System, Below>::AddLate(SizeClass c, uint64_t late) noexcept {
  if (late > 0) late_[c].fetch_add(late, std::memory_order_relaxed);
}

// Sets the counts of class c in the cache of the current CPU. Returns false if no count ran out, or
// if another thread changes the cache.
template <Os System, class Below>
bool Front<System, Below>::RearmCurrent(CacheOf* cache, SizeClass c) noexcept {
  if (!cache->lock.TryLock()) return false;
  bool done = false;
  ForEachList(c, [&](uint64_t list) { done |= RearmList(cache, c, list); });
  cache->lock.Unlock();
  return done;
}

// The caller holds the lock of the cache.
template <Os System, class Below>
bool Front<System, Below>::RearmList(CacheOf* cache, SizeClass c, uint64_t list) noexcept {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries && cache->epoch == sampling_.epoch(); ++i) {
    const uint64_t header = cache->Header(list);
    const uint64_t left = header >> kCountShift;
    if (!RanOut(left)) return false;
    uint64_t late;
    const uint64_t count = sampling_.DrawAfter(c, kCountMask - left, &late);
    if (!arch::CompareStore(cache->words, list, header,
                            count << kCountShift | (header & kCursorMask))) {
      continue;
    }
    cache->issued[c] = cache->issued[c] + count - left;
    AddLate(c, late);
    return true;
  }
  return false;
}

template <Os System, class Below>
void Front<System, Below>::Rearm(SizeClass c) noexcept {
  CacheOf* const cache = Current();
  if (cache == nullptr || !RearmCurrent(cache, c))
    rearm_pending_.store(true, std::memory_order_relaxed);
  if (cache == nullptr || sampling_.on() || !ReadyTrials::On() || !HasReady(c)) return;
  if (cache->NoteRunOut(c, System::NowNanos())) trials_.AfterCount(c);
}

// Arms the calling thread's own thread cache. SetSampling has put the null cache in its row of the
// cache table, so that the thread comes here.
template <Os System, class Below>
void Front<System, Below>::ArmOwn(CacheOf* cache, size_t index) noexcept {
  if (!cache->lock.TryLock()) return;
  while (cache->epoch != sampling_.epoch()) {
    Arm(*cache);
    // SetSampling changes the epoch before it changes the row: this exchange makes the epoch
    // visible.
    (void)__atomic_exchange_n(&anchor.cache[kUnregisteredIndices + index], &cache->words[0],
                              __ATOMIC_ACQ_REL);
  }
  cache->lock.Unlock();
}

template <Os System, class Below>
bool Front<System, Below>::SetSampling(uint64_t rate, uint64_t seed) noexcept {
  size_t end;
  {
    Locked hold(create_);  // Create arms each cache that it makes from now on
    sampling_.Set(rate, seed);
    end = caches_end_.load(std::memory_order_relaxed);
  }
  const bool by_cpu = threads.owner() == CacheOwner::kCpu;
  bool all = true;
  for (size_t i = 0; i < end; ++i) {
    CacheOf* const cache = caches_[i].load(std::memory_order_acquire);
    if (cache == nullptr || cache->epoch == sampling_.epoch()) continue;
    if (!by_cpu) {
      Publish(i, anchor.null_cache);
      continue;
    }
    if (!Stop(i)) continue;
    cache->lock.Lock();
    if (System::AbortRestartables()) {
      Arm(*cache);
    } else {
      all = false;
    }
    Resume(i);
  }
  return all;
}

}  // namespace granary
