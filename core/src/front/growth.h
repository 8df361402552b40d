// When and how a class gets more slots of the current CPU's cache. Nobody stops for it: the new
// slots lie behind the wall until one store takes the wall away.
#pragma once

#include "front/cache.h"

namespace granary {

// The next capacity after `slots`.
constexpr size_t NextCapacity(SizeClass c, size_t slots) {
  if (slots < ShortCapacity(c)) return ShortCapacity(c);
  return slots * 2 < LongCapacity(c) ? slots * 2 : LongCapacity(c);
}

template <Os System>
class Growth {
 public:
  // `spill` receives the objects that found no slot while a class moved.
  template <class Spill>
  static bool Grow(Cache<System>* cache, SizeClass c, size_t budget, Spill&& spill) {
    if (!MayGrow(*cache, c, budget) || !cache->lock.TryLock()) return false;
    const size_t before = cache->capacity[c];
    const size_t after = NextCapacity(c, before);
    bool grown = MayGrow(*cache, c, budget);
    if (grown) {
      grown = before == ShortCapacity(c) ? MoveToLong(cache, c, after, spill)
                                         : RaiseWall(cache, cache->Floor(c), before, after);
    }
    if (grown) cache->SetCapacity(c, after);
    cache->lock.Unlock();
    return grown;
  }

  // Makes the ready slots of class c usable, once and for all.
  static void GrantReady(Cache<System>* cache, SizeClass c) {
    if (cache->has_ready[c] || !cache->lock.TryLock()) return;
    if (!cache->has_ready[c] && RaiseWall(cache, kCacheLayout.ready_floor[c], 0, kReadySlots)) {
      cache->has_ready[c] = true;
    }
    cache->lock.Unlock();
  }

 private:
  // A class that is as large as it gets, or a cache as large as it may be, is not locked for
  // nothing.
  static bool MayGrow(const Cache<System>& cache, SizeClass c, size_t budget) {
    const size_t before = cache.capacity[c];
    const size_t more = (NextCapacity(c, before) - before) * kClassSize[c];
    return more > 0 && cache.granted.load(std::memory_order_relaxed) + more <= budget;
  }

  static bool RaiseWall(Cache<System>* cache, size_t floor, size_t before, size_t after) {
    cache->Fill(floor, before, after);
    return arch::CompareStore(cache->words, floor + before + 1, 0, kFiller);
  }

  template <class Spill>
  static bool MoveToLong(Cache<System>* cache, SizeClass c, size_t after, Spill&& spill) {
    constexpr size_t kMost = 8;
    static_assert([] {
      for (SizeClass k = 1; k < kNumClasses; ++k) {
        if (ShortCapacity(k) > kMost) return false;
      }
      return true;
    }());
    const size_t floor = kCacheLayout.long_floor[c];
    cache->words[floor + 1] = kFiller;
    cache->Fill(floor, 0, after);
    void* held[kMost];
    const size_t count = arch::PopMany(c, held, kMost);
    const uint64_t header = cache->Header(c);
    const bool moved = (header & kCursorMask) == kCacheLayout.short_floor[c] &&
                       arch::CompareStore(cache->words, c, header, (header & ~kCursorMask) | floor);
    if (!moved) ClearLong(cache, floor, after);
    const size_t kept = arch::PushMany(c, held, count);
    if (kept < count) spill(held + kept, count - kept);
    return moved;
  }

  static void ClearLong(Cache<System>* cache, size_t floor, size_t slots) {
    for (size_t at = floor + 1; at <= floor + slots; ++at) cache->words[at] = 0;
  }
};

}  // namespace granary
