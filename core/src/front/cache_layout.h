// Where the words of a cache lie. First the headers, then for each list a floor (a zero word), its
// slots, and the zero word above them, which is the next one's floor. The ready lists are short.
// The others start in a short region, all of them on two or three pages, and move to a long one
// when they are busy. A slot that may take a pointer is never zero: it holds an old pointer or
// kFiller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"
#include "sizes/size_classes.h"

namespace granary {

inline constexpr uint64_t kFiller = 1;

// Slots of a ready list: enough that moving objects there costs little for each, few enough that
// they stay in the first level of the CPU's own caches.
inline constexpr size_t kReadySlots = kBlock;

// Slots of the short region: at most 4 KiB of small objects, one medium object.
constexpr size_t ShortCapacity(SizeClass c) {
  if (!IsSmall(c)) return 1;
  const size_t fit = 4 * kKiB / kClassSize[c];
  return fit > 8 ? 8 : fit < 2 ? 2 : fit;
}

// Slots of the long region: at most 128 KiB of objects.
constexpr size_t LongCapacity(SizeClass c) {
  const size_t fit = 128 * kKiB / kClassSize[c];
  const size_t least = ShortCapacity(c) + 2;
  if (!IsSmall(c)) return 2;
  return fit > 1022 ? 1022 : fit < least ? least : fit;
}

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
  layout.short_floor[0] = layout.long_floor[0] = static_cast<uint16_t>(at);  // no slots at all
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

inline constexpr uint64_t kCursorMask = 0xffff;
inline constexpr unsigned kCountShift = 16;
inline constexpr uint64_t kCountMask = ~uint64_t{0} >> kCountShift;

// Where the count of a class starts when it does not lead to a sample: when it runs out, the thread
// looks whether somebody outside asks for something.
inline constexpr uint64_t kLook = uint64_t{1} << 20;
constexpr bool RanOut(uint64_t count) { return count > kCountMask / 2; }

}  // namespace granary
