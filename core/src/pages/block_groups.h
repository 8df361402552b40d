// Counts of blocks by size, for the statistics: four groups for each power of two from 1 MiB.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "sizes/size_classes.h"

namespace granary {

// The numbers of blocks of one group that were allocated and freed.
struct LargeCounts {
  uint32_t made = 0;
  uint32_t gone = 0;
};

inline constexpr size_t kLargeGroups = 104;
constexpr size_t LargeGroupOf(size_t bytes) {
  if (bytes <= kMaxMedium) return 0;
  const size_t doubling = static_cast<size_t>(std::bit_width((bytes - 1) / kMaxMedium)) - 1;
  const size_t from = kMaxMedium << doubling;
  const size_t group = doubling * 4 + (bytes - from - 1) / (from / 4);
  return group < kLargeGroups ? group : kLargeGroups - 1;
}

}  // namespace granary
