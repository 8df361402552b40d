// One cache and what is known about it besides its words: how many slots each class may use, and
// what it looked like when last inspected. Capacity changes under `lock`; the words change by the
// sequences of arch/rseq.h, or exclusively while the cache is stopped.
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
  std::atomic<size_t> granted{0};             // bytes that the capacities add up to
  Hint<uint16_t> capacity[kNumClasses] = {};  // slots
  Hint<bool> missed[kNumClasses] = {};        // found empty since it last grew
  Hint<bool> overflowed[kNumClasses] = {};    // found full since it last grew
  Hint<bool> has_ready[kLastReady + 1] = {};  // its ready slots may be used
  Hint<uint8_t> fewer[kLastReady + 1] = {};   // times in a row that less than a block was left
  uint64_t seen[kNumClasses] = {};            // the headers when last inspected
  uint64_t seen_ready[kLastReady + 1] = {};   // likewise, of the ready lists
  Hint<uint64_t> issued[kNumClasses] = {};    // what the counts were set to, beyond kLook
  Hint<uint32_t> epoch;                       // that of the sampling that set them
  CacheWords words[kCacheLayout.words];

  void Init() {
    for (SizeClass c = 0; c < kNumClasses; ++c) {
      words[c] = kLook << kCountShift | kCacheLayout.short_floor[c];
    }
    for (SizeClass c = 1; c <= kLastReady; ++c) {
      words[ReadyList(c)] = kLook << kCountShift | kCacheLayout.ready_floor[c];
    }
    words[kSampledClass] = kCacheLayout.short_floor[kNoClass];
  }

  uint64_t Header(uint64_t list) const { return __atomic_load_n(&words[list], __ATOMIC_RELAXED); }
  bool IsLong(SizeClass c) const { return capacity[c] > ShortCapacity(c); }
  size_t Floor(SizeClass c) const {
    return IsLong(c) ? kCacheLayout.long_floor[c] : kCacheLayout.short_floor[c];
  }

  uint64_t Count(SizeClass c) const { return Header(PopList(c)) >> kCountShift; }
  // Whether class c's count of allocations has passed zero since it was set.
  bool RanOut(SizeClass c) const { return granary::RanOut(Count(c)); }
  // Sets it. The cache is exclusive.
  void SetCount(SizeClass c, uint64_t count) {
    issued[c] = issued[c] + count - Count(c);
    CacheWords& header = words[PopList(c)];
    header = count << kCountShift | (header & kCursorMask);
  }

  // The allocations of class c that the header counted.
  uint64_t Allocations(SizeClass c) const {
    return (kLook + issued[c] - (Header(PopList(c)) >> kCountShift)) & kCountMask;
  }

  // Now and then less than a block counts as nothing: a busy class gets enough for whole blocks.
  bool WantsMore(SizeClass c) {
    fewer[c] = static_cast<uint8_t>((fewer[c] + 1) % 64);
    return fewer[c] == 0;
  }

  size_t ReadyObjects(SizeClass c) const {
    return HasReady(c) ? (Header(ReadyList(c)) & kCursorMask) - kCacheLayout.ready_floor[c] : 0;
  }
  // Whether class c was used since it was last seen.
  bool IsIdle(SizeClass c) const {
    return Header(c) == seen[c] && (!HasReady(c) || Header(ReadyList(c)) == seen_ready[c]);
  }
  void See() {
    for (SizeClass c = 1; c < kNumClasses; ++c) seen[c] = Header(c);
    for (SizeClass c = 1; c <= kLastReady; ++c) seen_ready[c] = Header(ReadyList(c));
  }

  // Makes the words between two capacities of a region usable but for the lowest, which the
  // caller changes last: it is the wall.
  void Fill(size_t floor, size_t from, size_t to) {
    for (size_t at = floor + from + 2; at <= floor + to; ++at) words[at] = kFiller;
  }

  // Takes all slots from class c. The cache is exclusive and holds nothing of it.
  void Revoke(SizeClass c) {
    const size_t floor = Floor(c);
    for (size_t at = floor + 1; at <= floor + capacity[c]; ++at) words[at] = 0;
    if (IsLong(c)) Wall(c);
    words[c] = (words[c] & ~kCursorMask) | kCacheLayout.short_floor[c];
    granted.fetch_sub(capacity[c] * size_t{kClassSize[c]}, std::memory_order_relaxed);
    capacity[c] = 0;
    missed[c] = overflowed[c] = false;
  }

  // Makes the slots of c's short region, which it has left for the long one, unusable.
  void Wall(SizeClass c) {
    const size_t floor = kCacheLayout.short_floor[c];
    for (size_t at = floor + 1; at <= floor + ShortCapacity(c); ++at) words[at] = 0;
  }

  // Gives class c its first slots. The cache is exclusive.
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
