// One cache: its words, the capacity of each class, and the headers at the end of the last decay
// interval. Capacities change under `lock`. The words change by the critical sections of
// arch/rseq.h, or, while the cache is stopped, by the thread that stopped it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arch/rseq.h"
#include "base/check.h"
#include "base/hint.h"
#include "front/cache_layout.h"
#include "front/exclusive.h"
#include "os/mutex.h"
#include "os/os.h"

namespace granary {

template <Os System>
struct Cache {
  Mutex<System> lock;
  std::atomic<bool> stopped{false};
  std::atomic<size_t> granted{0};                    // sum of the capacities in bytes
  Hint<uint16_t> capacity[kNumClasses] = {};         // slots
  Hint<bool> missed[kNumClasses] = {};               // a miss since the capacity last grew
  Hint<bool> overflowed[kNumClasses] = {};           // an overflow since the capacity last grew
  Hint<bool> has_ready[kLastReady + 1] = {};         // whether the ready list has slots
  Hint<uint8_t> short_refills[kLastReady + 1] = {};  // refills with less than a group
  uint64_t last_headers[kNumClasses] = {};           // at the end of the last interval
  uint64_t last_ready_headers[kLastReady + 1] = {};  // of the ready lists
  Hint<uint64_t> issued[kNumClasses] = {};           // sum of all that SetCount added to the count
  Hint<uint32_t> epoch;                              // Sampling::epoch of these counts
  CacheWords words[kCacheLayout.words];

  void Init() {
    for (SizeClass c = 0; c < kNumClasses; ++c) {
      words[c] = kInitialCount << kCountShift | kCacheLayout.short_floor[c];
    }
    for (SizeClass c = 1; c <= kLastReady; ++c) {
      words[ReadyList(c)] = kInitialCount << kCountShift | kCacheLayout.ready_floor[c];
    }
    words[kSampledClass] = kCacheLayout.short_floor[kNoClass];
  }

  uint64_t Header(uint64_t list) const { return __atomic_load_n(&words[list], __ATOMIC_RELAXED); }
  bool IsLong(SizeClass c) const { return capacity[c] > ShortCapacity(c); }
  size_t Floor(SizeClass c) const {
    return IsLong(c) ? kCacheLayout.long_floor[c] : kCacheLayout.short_floor[c];
  }

  uint64_t Count(SizeClass c) const { return Header(PopList(c)) >> kCountShift; }
  // Whether the count of class c has passed zero since it was set.
  bool RanOut(SizeClass c) const { return granary::RanOut(Count(c)); }
  // Sets the count. The caller has exclusive use of the cache.
  void SetCount(SizeClass c, uint64_t count) {
    issued[c] = issued[c] + count - Count(c);
    CacheWords& header = words[PopList(c)];
    header = count << kCountShift | (header & kCursorMask);
  }

  // The number of allocations of class c that the header counted.
  uint64_t Allocations(SizeClass c) const {
    return (kInitialCount + issued[c] - (Header(PopList(c)) >> kCountShift)) & kCountMask;
  }

  // Whether a refill with less than a group fetches a batch from the depot instead. This is true
  // for one refill of 64, so that a busy class has enough objects for whole groups.
  bool FetchInstead(SizeClass c) {
    short_refills[c] = static_cast<uint8_t>((short_refills[c] + 1) % 64);
    return short_refills[c] == 0;
  }

  size_t ReadyObjects(SizeClass c) const {
    return HasReady(c) ? (Header(ReadyList(c)) & kCursorMask) - kCacheLayout.ready_floor[c] : 0;
  }
  // Whether the headers of class c are those of the last RecordHeaders: the class was not used
  // since.
  bool IsIdle(SizeClass c) const {
    return Header(c) == last_headers[c] &&
           (!HasReady(c) || Header(ReadyList(c)) == last_ready_headers[c]);
  }
  void RecordHeaders() {
    for (SizeClass c = 1; c < kNumClasses; ++c) last_headers[c] = Header(c);
    for (SizeClass c = 1; c <= kLastReady; ++c) last_ready_headers[c] = Header(ReadyList(c));
  }

  // Makes the slots from capacity `from` to capacity `to` usable, except the lowest one: it is the
  // wall, and the caller changes it last.
  void Fill(size_t floor, size_t from, size_t to) {
    for (size_t at = floor + from + 2; at <= floor + to; ++at) words[at] = kFiller;
  }

  // Removes all slots of class c, which is empty. The caller has exclusive use of the cache.
  void Revoke(SizeClass c) {
    const size_t floor = Floor(c);
    for (size_t at = floor + 1; at <= floor + capacity[c]; ++at) words[at] = 0;
    if (IsLong(c)) ClearShort(c);
    words[c] = (words[c] & ~kCursorMask) | kCacheLayout.short_floor[c];
    granted.fetch_sub(capacity[c] * size_t{kClassSize[c]}, std::memory_order_relaxed);
    capacity[c] = 0;
    missed[c] = overflowed[c] = false;
  }

  // Makes the slots in the short region of class c unusable. The class has moved to the long
  // region.
  void ClearShort(SizeClass c) {
    const size_t floor = kCacheLayout.short_floor[c];
    for (size_t at = floor + 1; at <= floor + ShortCapacity(c); ++at) words[at] = 0;
  }

  // Gives class c the slots of its short region. The caller has exclusive use of the cache.
  void Grant(SizeClass c) {
    if (capacity[c] != 0) return;
    const size_t slots = ShortCapacity(c);
    Fill(kCacheLayout.short_floor[c], 0, slots);
    words[kCacheLayout.short_floor[c] + 1] = kFiller;
    SetCapacity(c, slots);
  }

  void SetCapacity(SizeClass c, size_t slots) {
    granted.fetch_add((slots - capacity[c]) * kClassSize[c], std::memory_order_relaxed);
    capacity[c] = static_cast<uint16_t>(slots);
    missed[c] = overflowed[c] = false;
  }

  void Verify() const {
    size_t bytes = 0;
    for (SizeClass c = 1; c < kNumClasses; ++c) {
      const size_t floor = Floor(c);
      const size_t cursor = exclusive::Cursor(words, c);
      GRANARY_CHECK(words[floor] == 0 && words[floor + capacity[c] + 1] == 0);
      GRANARY_CHECK(cursor >= floor && cursor <= floor + capacity[c]);
      for (size_t at = floor + 1; at <= floor + capacity[c]; ++at) GRANARY_CHECK(words[at] != 0);
      if (capacity[c] == 0) GRANARY_CHECK(words[floor + 1] == 0);
      if (HasReady(c)) VerifyReady(c);
      bytes += capacity[c] * size_t{kClassSize[c]};
    }
    GRANARY_CHECK(bytes == granted.load());
  }

  void VerifyReady(SizeClass c) const {
    const size_t floor = kCacheLayout.ready_floor[c];
    const size_t slots = has_ready[c] ? kReadySlots : 0;
    GRANARY_CHECK(words[floor] == 0 && words[floor + slots + 1] == 0);
    GRANARY_CHECK(ReadyObjects(c) <= slots);
    for (size_t at = floor + 1; at <= floor + slots; ++at) GRANARY_CHECK(words[at] != 0);
  }
};

}  // namespace granary
