// Growth of the capacity of a class in the cache of the current CPU. No thread stops for it: the
// new slots are above the wall until one store removes the wall.
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
  // While a class moves to its long region, `spill` receives the objects that find no slot.
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

  // Makes the slots of the ready list of class c usable. They stay usable.
  static void GrantReady(Cache<System>* cache, SizeClass c) {
    if (cache->has_ready[c] || !cache->lock.TryLock()) return;
    if (!cache->has_ready[c] && RaiseWall(cache, kCacheLayout.ready_floor[c], 0, kReadySlots)) {
      cache->has_ready[c] = true;
    }
    cache->lock.Unlock();
  }

 private:
  // Whether the capacity of class c is below its maximum and the cache below its budget. Grow
  // checks this without the lock, then again with the lock.
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
    constexpr size_t kMaxShort = 8;
    static_assert([] {
      for (SizeClass k = 1; k < kNumClasses; ++k) {
        if (ShortCapacity(k) > kMaxShort) return false;
      }
      return true;
    }());
    const size_t floor = kCacheLayout.long_floor[c];
    cache->words[floor + 1] = kFiller;
    cache->Fill(floor, 0, after);
    void* held[kMaxShort];
    const size_t count = arch::PopMany(c, held, kMaxShort);
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
