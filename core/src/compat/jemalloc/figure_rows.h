// The rows of jemalloc's statistics, for one arena and for all arenas.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pages/pages.h"
#include "sizes/size_classes.h"

namespace granary::jemalloc {

// Bins are the small classes. Large extents are the medium classes, then groups of blocks by size,
// four to a doubling.
inline constexpr size_t kBins = kNumSmall - 1;
inline constexpr size_t kMediumExtents = kNumClasses - kNumSmall;
inline constexpr size_t kGroups = kLargeGroups;
inline constexpr size_t kExtents = kMediumExtents + kGroups;

constexpr size_t BinSize(size_t bin) { return kClassSize[bin + 1]; }
constexpr size_t ExtentSize(size_t extent) {
  if (extent < kMediumExtents) return kClassSize[kNumSmall + extent];
  if (extent == kExtents - 1) return kMaxBlock;
  const size_t group = extent - kMediumExtents;
  const size_t from = kMaxMedium << (group / 4);
  return from + from / 4 * (group % 4 + 1);
}

struct BinFigures {
#define BIN(name, type) uint64_t name;
#include "compat/jemalloc/figures.def"
};
struct ExtentFigures {
#define LEXTENT(name, type) uint64_t name;
#include "compat/jemalloc/figures.def"
};
struct KindFigures {
#define KIND(name, type) uint64_t name;
#include "compat/jemalloc/figures.def"
};
struct ArenaFigures {
#define ARENA(name, type) uint64_t name;
#include "compat/jemalloc/figures.def"
  KindFigures small, large;
  BinFigures bins[kBins];
  ExtentFigures lextents[kExtents];
};

struct TotalFigures {
  uint64_t allocated, active, metadata, metadata_thp, metadata_edata, metadata_rtree, resident,
      mapped, retained, pinned, zero_reallocs;
};

// Reads a value by its offset, in a type whose values are rows of uint64_t.
inline uint64_t At(const void* figures, size_t offset) {
  return *reinterpret_cast<const uint64_t*>(static_cast<const char*>(figures) + offset);
}

}  // namespace granary::jemalloc
