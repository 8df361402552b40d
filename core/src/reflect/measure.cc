#include "reflect/measure.h"

#include "heap/heap.h"

namespace granary {

ClassFigures MeasureClass(SizeClass c) noexcept {
  const CentralStats central = heap.central().Stats(c);
  ClassFigures f;
  f.size = kClassSize[c];
  f.cached = heap.front().CachedObjects(c);
  f.depot = heap.depot().CachedObjects(c);
  const size_t above = f.cached + f.depot;
  f.live = central.used_objects > above ? central.used_objects - above : 0;
  f.allocations = heap.front().Allocations(c);
  f.slab_free = central.free_objects;
  f.slabs = central.slabs;
  f.partial_slabs = central.partial_slabs;
  f.slab_bytes = IsSmall(c) ? kSlabShape[c].bytes : 0;
  f.clean_bytes = central.clean_bytes;
  return f;
}

namespace {

void AddClass(Snapshot& s, SizeClass c) {
  const ClassFigures f = MeasureClass(c);
  const size_t most = f.size - (kClassSize[c - 1] + 1);
  s.allocations += f.allocations;
  s.live_objects += f.live;
  s.live += f.live * f.size;
  s.rounding_most += f.live * most;
  s.cached += f.cached * f.size;
  s.cached_objects += f.cached;
  s.depot += f.depot * f.size;
  s.slabs += f.slabs;
  s.partial_slabs += f.partial_slabs;
  s.slab_bytes += f.slabs * f.slab_bytes;
  s.slab_clean += f.clean_bytes;
  s.contentions_central += heap.central().mutex(c).contentions();
  if (!IsSmall(c)) return;
  s.slab_free += f.slabs * f.slab_bytes - (f.live + f.cached + f.depot) * f.size;
  s.contentions_depot += heap.depot().Contentions(c);
}

void AddPages(Snapshot& s) {
  const PageStats pages = heap.pages().Stats();
  s.large = pages.large;
  s.large_requested = pages.large_requested;
  s.large_allocations = pages.large_allocations;
  s.large_frees = pages.large_frees;
  s.large_blocks = pages.large_allocations - pages.large_frees;
  s.dirty = pages.dirty;
  s.dirty_peak = pages.dirty_peak;
  s.owed = pages.owed;
  s.used_spans = pages.used;
  s.used_spans_peak = pages.used_peak;
  s.held = pages.used + pages.dirty;
  s.held_peak = pages.held_peak;
  s.grown = heap.pages().grown_bytes();
  s.mapped = pages.mapped;
  s.mapped_metadata = heap.metadata().mapped();
  s.metadata_used = heap.metadata().used();
  s.page_map = page_map.leaves.load(std::memory_order_relaxed) * sizeof(PageMap::Leaf);
  s.released = pages.released + heap.central().released_bytes();
  s.contentions_pages = heap.pages().mutex().contentions();
  s.contentions_metadata = heap.metadata().mutex().contentions();
}

}  // namespace

uint64_t LiveBytes() noexcept {
  uint64_t sum = heap.pages().Stats().large;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const size_t before = heap.central().Stats(c).used_objects;
    if (before == 0) continue;
    const size_t above = heap.front().CachedObjects(c) + heap.depot().CachedObjects(c);
    const size_t after = heap.central().Stats(c).used_objects;
    const size_t used = before < after ? before : after;
    if (used > above) sum += (used - above) * kClassSize[c];
  }
  return sum;
}

Snapshot Measure() noexcept {
  heap.EnsureInit();
  Snapshot s;
  for (SizeClass c = 1; c < kNumClasses; ++c) AddClass(s, c);
  AddPages(s);
  s.rounding_expected = s.rounding_most / 2 + (s.large - s.large_requested);
  s.rounding_most += s.large - s.large_requested;
  s.allocations += s.large_allocations;
  s.live_objects += s.large_blocks;
  s.live += s.large;
  const uint64_t live_peak = heap.peaks().live();
  s.live_peak = live_peak > s.live ? live_peak : s.live;
  s.frees = s.allocations > s.live_objects ? s.allocations - s.live_objects : 0;
  s.caches = heap.front().Caches();
  s.cache_capacity = heap.front().Capacity();
  s.contentions_front = heap.front().Contentions();
  s.threads = threads.seen();
  s.release_calls = system_calls.release_calls.load(std::memory_order_relaxed);
  s.release_time = system_calls.release_nanos.load(std::memory_order_relaxed);
  s.ceiling = heap.upkeep().ceiling();
  s.pressed = heap.upkeep().pressed();
  s.squeezed = heap.upkeep().squeezed();
  s.windows = heap.upkeep().windows();
  s.helper = heap.upkeep().HelperRuns();
  s.arenas = heap.arenas().count.load(std::memory_order_relaxed);
  s.arenas_used = heap.arenas().used.load(std::memory_order_relaxed);
  s.arenas_dirty = heap.arenas().dirty.load(std::memory_order_relaxed);
  return s;
}

}  // namespace granary
