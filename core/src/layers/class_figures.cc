#include "layers/class_figures.h"

#include "layers/layers.h"

namespace granary {

ClassFigures MeasureClass(SizeClass c) noexcept {
  const CentralStats central = layers.central().Stats(c);
  ClassFigures f;
  f.size = kClassSize[c];
  f.cached = layers.front().CachedObjects(c);
  f.depot = layers.depot().CachedObjects(c);
  const size_t above = f.cached + f.depot;
  f.live = central.used_objects > above ? central.used_objects - above : 0;
  f.allocations = layers.front().Allocations(c);
  f.slab_free = central.free_objects;
  f.slabs = central.slabs;
  f.partial_slabs = central.partial_slabs;
  f.slab_bytes = IsSmall(c) ? kSlabShape[c].bytes : 0;
  f.clean_bytes = central.clean_bytes;
  return f;
}

uint64_t LiveBytes() noexcept {
  uint64_t sum = layers.pages().Stats().large;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const size_t before = layers.central().Stats(c).used_objects;
    if (before == 0) continue;
    const size_t above = layers.front().CachedObjects(c) + layers.depot().CachedObjects(c);
    const size_t after = layers.central().Stats(c).used_objects;
    const size_t used = before < after ? before : after;
    if (used > above) sum += (used - above) * kClassSize[c];
  }
  return sum;
}

uint64_t CachedBytes() noexcept {
  uint64_t sum = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    sum += (layers.front().CachedObjects(c) + layers.depot().CachedObjects(c)) * kClassSize[c];
  }
  return sum;
}

}  // namespace granary
