// The size classes: the sizes that exist, the class that serves a request, and how a slab of each
// class is cut.
//
// The sizes are 8 bytes, then 16-byte steps to 512 and 32-byte steps to 1024 (most objects of
// servers are in this range), then 8 steps per doubling to 64 KiB ("small", cut from slabs), then 8
// steps per doubling but at least a granule to 1 MiB ("medium", one span per object). Blocks have
// no class.
//
// With GRANARY_LG_QUANTUM=3 the sizes are those of jemalloc with that setting: 8-byte steps to 64
// bytes, then 4 steps per doubling. Valkey computes with these sizes.
//
// With GRANARY_COARSE_CLASSES there are 16-byte steps to 128 bytes, then 4 steps per doubling:
// about half as many classes, for `granary simulate --classes coarse`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/units.h"

namespace granary {

using SizeClass = uint32_t;

inline constexpr size_t kMaxSmall = 64 * kKiB;
inline constexpr size_t kMaxMedium = kMiB;
inline constexpr size_t kMaxClasses = 128;
// a block, an unknown address or null: the slow path decides
inline constexpr SizeClass kNoClass = 0;
// In the page map, marks a granule in which a sampled object begins. The slow path decides here
// too.
inline constexpr SizeClass kSampledClass = kMaxClasses - 1;

#if defined(GRANARY_LG_QUANTUM) && GRANARY_LG_QUANTUM == 3
inline constexpr size_t kQuantum = 8;  // alignment of every object above 8 bytes
#else
inline constexpr size_t kQuantum = 16;
#endif
#if defined(GRANARY_COARSE_CLASSES)
inline constexpr bool kCoarse = true;
#else
inline constexpr bool kCoarse = kQuantum == 8;
#endif

namespace internal_sizes {

constexpr size_t StepAfter(size_t size, size_t step) {
  return size < kMaxSmall ? size + step
                          : RoundDown(size, kGranule) + (step > kGranule ? step : kGranule);
}

constexpr size_t NextSize(size_t size) {
  if (kQuantum == 8) return size < 64 ? size + 8 : StepAfter(size, std::bit_floor(size) / 4);
  if (size == 0) return 8;
  if (size == 8) return 16;
  if (kCoarse) return size < 128 ? size + 16 : StepAfter(size, std::bit_floor(size) / 4);
  if (size < 512) return size + 16;
  if (size < 1024) return size + 32;
  return StepAfter(size, std::bit_floor(size) / 8);
}

constexpr size_t CountClasses() {
  size_t count = 1;
  for (size_t size = NextSize(0); size <= kMaxMedium; size = NextSize(size)) ++count;
  return count;
}

consteval auto MakeSizes() {
  std::array<uint32_t, CountClasses()> sizes{};
  for (size_t c = 1, size = 0; c < sizes.size(); ++c) {
    size = NextSize(size);
    sizes[c] = static_cast<uint32_t>(size);
  }
  return sizes;
}

}  // namespace internal_sizes

inline constexpr auto kClassSize = internal_sizes::MakeSizes();
inline constexpr size_t kNumClasses = kClassSize.size();

namespace internal_sizes {

consteval SizeClass CountSmall() {
  SizeClass c = 1;
  while (kClassSize[c] <= kMaxSmall) ++c;
  return c;
}

// A table with one row per step: the class of the smallest size >= step * grain.
template <size_t kGrain, size_t kMax>
consteval auto MakeLookup() {
  std::array<uint8_t, kMax / kGrain + 1> rows{};
  SizeClass c = 1;
  for (size_t row = 0; row < rows.size(); ++row) {
    while (kClassSize[c] < row * kGrain) ++c;
    rows[row] = static_cast<uint8_t>(c);
  }
  return rows;
}

}  // namespace internal_sizes

inline constexpr SizeClass kNumSmall = internal_sizes::CountSmall();  // classes [1, kNumSmall)

constexpr bool IsSmall(SizeClass c) { return c < kNumSmall; }

inline constexpr size_t kFineLimit =
    1024;  // the lookup table for requests up to this size has one row per 8 bytes
inline constexpr size_t kFineGrain = 8;
inline constexpr size_t kCoarseGrain = 128;

inline constexpr auto kFineLookup = internal_sizes::MakeLookup<kFineGrain, kFineLimit>();
inline constexpr auto kCoarseLookup = internal_sizes::MakeLookup<kCoarseGrain, kMaxSmall>();
inline constexpr auto kMediumLookup = internal_sizes::MakeLookup<kGranule, kMaxMedium>();

// The class that serves `size` bytes; kNoClass above kMaxMedium.
constexpr SizeClass ClassOf(size_t size) {
  if (size <= kFineLimit) return kFineLookup[(size + kFineGrain - 1) / kFineGrain];
  if (size <= kMaxSmall) return kCoarseLookup[(size + kCoarseGrain - 1) / kCoarseGrain];
  if (size <= kMaxMedium) return kMediumLookup[(size + kGranule - 1) / kGranule];
  return kNoClass;
}

inline constexpr size_t kMaxSlab = 256 * kKiB;

// Enough bits that no offset in a slab is rounded into the next object: offset * size < 2^36.
inline constexpr unsigned kInverseShift = 36;

// How a slab of a small class is cut.
struct SlabShape {
  uint32_t bytes = 0;
  uint32_t objects = 0;
  uint64_t inverse = 0;  // offset * inverse >> kInverseShift == offset / size in the slab
};

namespace internal_sizes {

// Valkey counts each free object of a slab as fragmentation, whether or not its page was touched.
// Short slabs keep that number low.
inline constexpr size_t kLeastSlab = kQuantum == 8 ? kGranule : 64 * kKiB;

// The smallest number of granules, kLeastSlab or more, that wastes less than 1/128 and holds at
// least four or eight objects. If there is none, the number that wastes least.
constexpr size_t SlabBytes(size_t size) {
  if (size < 32) return RoundUp(size * (kLeastSlab / 32), kGranule);
  const size_t least = size <= 8 * kKiB ? 8 : 4;  // with fewer objects, a slab becomes empty sooner
  size_t best = kMaxSlab;
  for (size_t bytes = kLeastSlab; bytes <= kMaxSlab; bytes += kGranule) {
    const size_t waste = bytes % size;
    if (bytes < 4 * size) continue;
    if (bytes >= least * size && waste * 128 < bytes) return bytes;
    if (waste * best < best % size * bytes) best = bytes;
  }
  return best;
}

consteval auto MakeShapes() {
  std::array<SlabShape, kNumSmall> shapes{};
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    const size_t size = kClassSize[c];
    const size_t bytes = SlabBytes(size);
    shapes[c] = {static_cast<uint32_t>(bytes), static_cast<uint32_t>(bytes / size),
                 ((uint64_t{1} << kInverseShift) + size - 1) / size};
  }
  return shapes;
}

}  // namespace internal_sizes

inline constexpr auto kSlabShape = internal_sizes::MakeShapes();

// The index of the object that holds the byte at `offset` of a slab of class c.
constexpr size_t ObjectAt(SizeClass c, size_t offset) {
  return (offset * kSlabShape[c].inverse) >> kInverseShift;
}

// The smallest class that holds `size` bytes and whose objects are all aligned to `alignment` (a
// power of two up to a granule). kNoClass if there is none.
constexpr SizeClass AlignedClassOf(size_t size, size_t alignment) {
  for (SizeClass c = ClassOf(size); c != kNoClass && c < kNumClasses; ++c) {
    if (kClassSize[c] % alignment == 0) return c;
  }
  return kNoClass;
}

namespace internal_sizes {

template <class Holds>
consteval bool ForEachPair(SizeClass from, Holds holds) {
  for (SizeClass c = from; c < kNumClasses; ++c) {
    if (!holds(kClassSize[c - 1], kClassSize[c])) return false;
  }
  return true;
}

static_assert(kNumClasses <= kSampledClass,
              "too many size classes: 126 at most, without kNoClass and kSampledClass");
static_assert(kMaxClasses <= 128, "the headers of one cache fill at most 1 KiB");
static_assert(kClassSize[kNumSmall - 1] == kMaxSmall && kClassSize.back() == kMaxMedium);
static_assert(ForEachPair(3, [](size_t, size_t size) { return size % kQuantum == 0; }),
              "from 9 bytes up every object is aligned to the quantum");
static_assert(kCoarse || ForEachPair(11,
                                     [](size_t prev, size_t size) {
                                       return (size - prev - 1) * 8 <= size || size > kMaxSmall;
                                     }),
              "past 144 bytes no small request wastes more than an eighth");
static_assert(ForEachPair(9,
                          [](size_t prev, size_t size) {
                            return (size - prev - 1) * 5 <= size || size > kMaxSmall;
                          }),
              "past 128 bytes none wastes more than a fifth, whatever the classes");
static_assert(ForEachPair(kNumSmall, [](size_t, size_t size) { return size % kGranule == 0; }));
static_assert(ForEachPair(kNumSmall + 8, [](size_t prev, size_t size) {
  return (size - prev) * (kCoarse ? 5 : 8) <= size || size - prev == kGranule;
}));
static_assert(ClassOf(0) == 1 && ClassOf(8) == 1 && ClassOf(9) == 2 &&
              kClassSize[ClassOf(17)] == RoundUp(17, kQuantum));

}  // namespace internal_sizes

}  // namespace granary
