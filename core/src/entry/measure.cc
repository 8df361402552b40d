#include "entry/measure.h"

#include "entry/heap.h"

namespace granary {
namespace {

void AddClass(Snapshot& s, SizeClass c) {
  const size_t size = kClassSize[c];
  const CentralStats central = heap.central().Stats(c);
  const size_t cached = heap.front().CachedObjects(c);
  const size_t in_depot = heap.depot().CachedObjects(c);
  const size_t above = cached + in_depot;
  s.allocations += heap.front().Allocations(c);
  s.live += (central.used_objects > above ? central.used_objects - above : 0) * size;
  s.cached += cached * size;
  s.depot += in_depot * size;
  s.slabs += central.slabs;
  if (IsSmall(c)) {
    s.slab_free += central.slabs * kSlabShape[c].bytes - central.used_objects * size;
  }
}

}  // namespace

Snapshot Measure() noexcept {
  heap.EnsureInit();
  Snapshot s;
  for (SizeClass c = 1; c < kNumClasses; ++c) AddClass(s, c);
  const PageStats pages = heap.pages().Stats();
  s.live += pages.large;
  s.large = pages.large;
  s.dirty = pages.dirty;
  s.used_spans = pages.used;
  s.mapped = pages.mapped;
  s.mapped_metadata = heap.metadata().mapped();
  s.released = pages.released + heap.central().released_bytes();
  s.release_calls = pages.release_calls;
  s.windows = heap.upkeep().windows();
  return s;
}

}  // namespace granary
