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
  Hint<uint16_t> move_cursor[kLastReady + 1] = {};   // of list c at its last group move
  Hint<uint8_t> unsteady_moves[kLastReady + 1] = {};
  Hint<uint8_t> moves[kLastReady + 1] = {};      // group moves, modulo 256
  Hint<uint64_t> timed_at[kLastReady + 1] = {};  // the time of the last NoteMoves
  Hint<bool> rare[kLastReady + 1] = {};          // what NoteMoves found
  Hint<uint64_t> ran_out_at[kLastReady + 1] =
      {};                                   // the time when a count of the class last ran out
  uint64_t last_headers[kNumClasses] = {};  // at the end of the last interval
  uint64_t last_ready_headers[kLastReady + 1] = {};  // of the ready lists
  Hint<uint64_t> issued[kNumClasses] = {};  // sum of all that SetCount added to the class's counts
  Hint<uint32_t> epoch;                     // Sampling::epoch of these counts
  CacheWords words[kCacheLayout.words];

  // The first stores make a page private at once: a load before would map the page of zeros, and
  // the store after it would stop all CPUs that run this process.
  void Init() {
    capacity[0] = 0;
    issued[kNumClasses - 1] = 0;
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

  uint64_t Count(uint64_t list) const { return Header(list) >> kCountShift; }
  // Whether the count of this list of class c has passed zero since it was set.
  bool RanOut(uint64_t list) const { return granary::RanOut(Count(list)); }
  // Sets the count of a list of class c. The caller has exclusive use of the cache.
  void SetCount(SizeClass c, uint64_t list, uint64_t count) {
    issued[c] = issued[c] + count - Count(list);
    exclusive::SetHeader(words, list, count << kCountShift | (words[list] & kCursorMask));
  }

  // The number of allocations of class c that its headers counted.
  uint64_t Allocations(SizeClass c) const {
    uint64_t allocations = issued[c];
    ForEachList(c, [&](uint64_t list) { allocations += kInitialCount - Count(list); });
    return allocations & kCountMask;
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
  bool IsIdle(SizeClass c) const { return Header(c) == last_headers[c] && IsReadyIdle(c); }
  bool IsReadyIdle(SizeClass c) const {
    return !HasReady(c) || Header(ReadyList(c)) == last_ready_headers[c];
  }
  void RecordHeaders() {
    for (SizeClass c = 1; c < kNumClasses; ++c) last_headers[c] = Header(c);
    for (SizeClass c = 1; c <= kLastReady; ++c) last_ready_headers[c] = Header(ReadyList(c));
  }

  // Allocations are dense if they are at most so far apart.
  static constexpr uint64_t kDenseNanos = 40;
  static constexpr uint8_t kTimedMoves = 64;
  // Notes that a count of class c ran out, at time `now` in nanoseconds, and returns whether the
  // allocations were so dense that a malloc may wait for the stores of the free before it.
  bool NoteRunOut(SizeClass c, uint64_t now) {
    const uint64_t since = now - ran_out_at[c];
    ran_out_at[c] = now;
    return since <= kDenseNanos * kInitialCount;
  }
  // Whether the caller of NoteMove must call NoteMoves now.
  bool MovesAreDue(SizeClass c) {
    moves[c] = static_cast<uint8_t>(moves[c] + 1);
    return moves[c] % kTimedMoves == 0;
  }
  // Notes that kTimedMoves groups of class c were moved since the last call. False if the
  // allocations were rare, twice in succession: the thread may have waited for a CPU once.
  bool NoteMoves(SizeClass c, uint64_t now) {
    const bool first = timed_at[c] == 0;
    const bool is_rare = !first && now - timed_at[c] > kDenseNanos * kTimedMoves * kGroup;
    const bool keeps = !is_rare || !rare[c];
    timed_at[c] = now;
    rare[c] = is_rare && keeps;
    return keeps;
  }
  // Notes a group move of class c, and returns whether the class keeps its ready list. It does
  // while moves find list c as the move before did: malloc then takes back what was freed just
  // before.
  bool NoteMove(SizeClass c) {
    constexpr uint8_t kMaxUnsteady = 4;
    const auto cursor = static_cast<uint16_t>(Header(c) & kCursorMask);
    const int difference = cursor - move_cursor[c];
    move_cursor[c] = cursor;
    if (difference >= -1 && difference <= 1) {
      if (unsteady_moves[c] > 0) unsteady_moves[c] = static_cast<uint8_t>(unsteady_moves[c] - 1);
      return true;
    }
    unsteady_moves[c] = static_cast<uint8_t>((unsteady_moves[c] + 1) % kMaxUnsteady);
    return unsteady_moves[c] != 0;
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
    exclusive::SetHeader(words, c, (words[c] & ~kCursorMask) | kCacheLayout.short_floor[c]);
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
