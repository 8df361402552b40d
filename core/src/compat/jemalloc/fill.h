// Computes the figures of an arena from those of its size classes and its page heap.
#pragma once

#include "compat/jemalloc/figure_rows.h"
#include "stats/snapshot.h"

namespace granary::jemalloc {

struct PageFigures {
  PageStats stats;
  size_t metadata = 0;    // bytes of metadata in use
  size_t huge_pages = 0;  // huge pages that may hold metadata
};

inline uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
inline uint64_t AtLeast(uint64_t a, uint64_t b) { return a > b ? a : b; }

inline void FillBin(ArenaFigures& arena, size_t bin, const ClassFigures& f) {
  const size_t regions = kSlabShape[bin + 1].objects;
  BinFigures& to = arena.bins[bin];
  to.curslabs = AtLeast(f.slabs, DivideUp(f.live, regions));
  to.nonfull_slabs = f.partial_slabs < to.curslabs ? f.partial_slabs : to.curslabs;
  to.curregs = f.live;
  to.nmalloc = to.nrequests = AtLeast(f.allocations, f.live);
  to.ndalloc = to.nmalloc - f.live;
  to.nslabs = to.curslabs;
  arena.small.allocated += f.live * f.size;
  arena.small.nmalloc += to.nmalloc;
  arena.small.ndalloc += to.ndalloc;
  arena.tcache_bytes += (f.cached + f.depot) * f.size;
}

inline void FillExtent(ArenaFigures& arena, size_t extent, uint64_t made, uint64_t live) {
  ExtentFigures& to = arena.lextents[extent];
  to.curlextents = live;
  to.nmalloc = to.nrequests = AtLeast(made, live);
  to.ndalloc = to.nmalloc - live;
  arena.large.nmalloc += to.nmalloc;
  arena.large.ndalloc += to.ndalloc;
}

// `of_class(c)` returns the ClassFigures of a class, `of_group(g)` the LargeCounts of a group.
template <class OfClass, class OfGroup>
void FillFigures(ArenaFigures& arena, const PageFigures& pages, OfClass&& of_class,
                 OfGroup&& of_group) {
  __builtin_memset(&arena, 0, sizeof arena);
  uint64_t clean = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    const ClassFigures f = of_class(static_cast<SizeClass>(bin + 1));
    FillBin(arena, bin, f);
    clean += f.clean_bytes;
  }
  for (size_t i = 0; i < kMediumExtents; ++i) {
    const ClassFigures f = of_class(static_cast<SizeClass>(kNumSmall + i));
    FillExtent(arena, i, f.allocations, f.live);
    arena.large.allocated += f.live * f.size;
    arena.tcache_bytes += (f.cached + f.depot) * f.size;
  }
  for (size_t g = 0; g < kGroups; ++g) {
    const LargeCounts counts = of_group(g);
    FillExtent(arena, kMediumExtents + g, counts.made, Less(counts.made, counts.gone));
  }
  arena.large.allocated += pages.stats.large;
  arena.small.nrequests = arena.small.nmalloc;
  arena.large.nrequests = arena.large.nmalloc;
  const uint64_t page = Linux::PageSize();
  const uint64_t live = arena.small.allocated + arena.large.allocated;
  // Clean pages of slabs are not active, because they are not resident.
  const uint64_t active = RoundUp(AtLeast(Less(pages.stats.used, clean), live), page);
  arena.pactive = active / page;
  arena.pdirty = pages.stats.dirty / page;
  arena.dirty_purged = pages.stats.released / page;
  arena.base = pages.metadata;
  arena.metadata_thp = pages.huge_pages;
  arena.mapped = active + pages.stats.dirty;
  arena.resident = arena.mapped + arena.base;
  arena.retained = Less(pages.stats.mapped, arena.mapped);
}

}  // namespace granary::jemalloc
