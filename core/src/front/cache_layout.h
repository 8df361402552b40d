// The order of the words of a cache. The headers are first. Each list follows: a floor (a zero
// word), its slots, and a wall (a zero word), which is also the floor of the next list. A ready
// list has kReadySlots slots. Every other list starts in a short region; all short regions are on
// two or three OS pages. A busy class moves to its long region. A usable slot is never zero: it
// holds a pointer, an old pointer or kFiller.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"
#include "sizes/size_classes.h"

namespace granary {

inline constexpr uint64_t kFiller = 1;

// Slots of a ready list: enough that a move costs little for each object, and so few that they stay
// in the L1 cache of the CPU.
inline constexpr size_t kReadySlots = kGroup;

// The slots of the regions of each class, as a table: slow paths read it more often than they could
// divide.
struct Capacities {
  std::array<uint8_t, kNumClasses> in_short{};
  std::array<uint16_t, kNumClasses> in_long{};
};

consteval Capacities MakeCapacities() {
  Capacities slots;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const size_t few = IsSmall(c) ? std::clamp<size_t>(4 * kKiB / kClassSize[c], 2, 8) : 1;
    const size_t many =
        IsSmall(c) ? std::clamp<size_t>(128 * kKiB / kClassSize[c], few + 2, 1022) : 2;
    slots.in_short[c] = static_cast<uint8_t>(few);
    slots.in_long[c] = static_cast<uint16_t>(many);
  }
  return slots;
}

inline constexpr Capacities kCapacities = MakeCapacities();

// Slots of the short region of a class: for at most 4 KiB of small objects, or for one medium
// object.
constexpr size_t ShortCapacity(SizeClass c) { return kCapacities.in_short[c]; }

// Slots of the long region of a class: for at most 128 KiB of small objects, or for two medium
// objects.
constexpr size_t LongCapacity(SizeClass c) { return kCapacities.in_long[c]; }

struct CacheLayout {
  std::array<uint16_t, kNumClasses> short_floor{};
  std::array<uint16_t, kNumClasses> long_floor{};
  std::array<uint16_t, kLastReady + 1> ready_floor{};
  size_t words = 0;
};

consteval CacheLayout MakeCacheLayout() {
  CacheLayout layout;
  size_t at = kHeaders;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    layout.short_floor[c] = static_cast<uint16_t>(at);
    at += ShortCapacity(c) + 1;
  }
  for (SizeClass c = 1; c <= kLastReady; ++c) {
    layout.ready_floor[c] = static_cast<uint16_t>(at);
    at += kReadySlots + 1;
  }
  layout.short_floor[0] = layout.long_floor[0] = static_cast<uint16_t>(at);  // no slots
  at += 1;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    layout.long_floor[c] = static_cast<uint16_t>(at);
    at += LongCapacity(c) + 1;
  }
  layout.words = at + 1;
  return layout;
}

inline constexpr CacheLayout kCacheLayout = MakeCacheLayout();
static_assert(kCacheLayout.words < 65536, "a cursor has 16 bits");

// Calls visit(list) for each list of class c.
template <class Visit>
constexpr void ForEachList(SizeClass c, Visit&& visit) {
  visit(uint64_t{c});
  if (HasReady(c)) visit(ReadyList(c));
}

inline constexpr uint64_t kCursorMask = 0xffff;
inline constexpr unsigned kCountShift = 16;
inline constexpr uint64_t kCountMask = ~uint64_t{0} >> kCountShift;

// The count that a class starts with while sampling is off. When it runs out, the thread checks for
// a request from another process, and the class may begin a trial (front/ready_trials.h).
inline constexpr uint64_t kInitialCount = uint64_t{1} << 16;
constexpr bool RanOut(uint64_t count) { return count > kCountMask / 2; }

}  // namespace granary
