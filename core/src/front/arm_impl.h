// The countdowns in the headers of caches: set while a cache is stopped, or by the thread that just
// took a sample.
#pragma once

#include "front/front.h"

namespace granary {

// Draws for every class anew. The cache is exclusive.
template <Os System, class Below>
void Front<System, Below>::Arm(CacheOf& cache) noexcept {
  cache.epoch = sampling_.epoch();
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    cache.SetCount(c, sampling_.Draw(c));
  }
}

// The same for the classes whose count ran out and was not set again.
template <Os System, class Below>
void Front<System, Below>::RearmStopped(CacheOf& cache) noexcept {
  if (cache.epoch != sampling_.epoch()) return;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    if (!cache.RanOut(c)) continue;
    uint64_t late;
    cache.SetCount(c, sampling_.DrawAfter(c, kCountMask - cache.Count(c), &late));
    CountLate(c, late);
  }
}

template <Os System, class Below>
void Front<System, Below>::CountLate(SizeClass c, uint64_t late) noexcept {
  if (late > 0) late_[c].fetch_add(late, std::memory_order_relaxed);
}

// Sets the count of class c, which ran out, on the cache of the CPU that the thread is on. False if
// it did not run out there, or another thread is changing the cache.
template <Os System, class Below>
bool Front<System, Below>::RearmCurrent(CacheOf* cache, SizeClass c) noexcept {
  constexpr int kTries = 8;
  if (!cache->lock.TryLock()) return false;
  bool done = false;
  for (int i = 0; i < kTries && !done && cache->epoch == sampling_.epoch(); ++i) {
    const uint64_t header = cache->Header(PopList(c));
    const uint64_t left = header >> kCountShift;
    if (!RanOut(left)) break;
    uint64_t late;
    const uint64_t count = sampling_.DrawAfter(c, kCountMask - left, &late);
    done = arch::CompareStore(cache->words, PopList(c), header,
                              count << kCountShift | (header & kCursorMask));
    if (!done) continue;
    cache->issued[c] = cache->issued[c] + count - left;
    CountLate(c, late);
  }
  cache->lock.Unlock();
  return done;
}

template <Os System, class Below>
void Front<System, Below>::Rearm(SizeClass c) noexcept {
  CacheOf* const cache = Current();
  if (cache == nullptr || !RearmCurrent(cache, c)) stale_.store(true, std::memory_order_relaxed);
}

// A cache that belongs to a thread is armed by that thread, which finds the null cache in its row.
template <Os System, class Below>
void Front<System, Below>::ArmOwn(CacheOf* cache, size_t index) noexcept {
  if (!cache->lock.TryLock()) return;
  while (cache->epoch != sampling_.epoch()) {
    Arm(*cache);
    // Whoever withdrew the cache had changed the epoch before: this exchange makes it visible.
    (void)__atomic_exchange_n(&anchor.cache[kUnregisteredIndices + index], &cache->words[0],
                              __ATOMIC_ACQ_REL);
  }
  cache->lock.Unlock();
}

template <Os System, class Below>
bool Front<System, Below>::SetSampling(uint64_t rate, uint64_t seed) noexcept {
  size_t end;
  {
    Locked hold(create_);  // a cache made from here on is armed when it is made
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
