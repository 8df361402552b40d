#include "inspection/measure.h"

#include "layers/class_figures.h"
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary {

namespace {

void AddClass(Snapshot& s, SizeClass c) {
  const ClassFigures f = MeasureClass(c);
  const size_t most = f.size - (kClassSize[c - 1] + 1);
  s.allocations += f.allocations;
  s.live_objects += f.live;
  s.live += f.live * f.size;
  s.rounding_max += f.live * most;
  s.cached += f.cached * f.size;
  s.cached_objects += f.cached;
  s.depot += f.depot * f.size;
  s.slabs += f.slabs;
  s.partial_slabs += f.partial_slabs;
  s.slab_bytes += f.slabs * f.slab_bytes;
  s.slab_clean += f.clean_bytes;
  s.contentions_central += layers.central().mutex(c).contentions();
  if (!IsSmall(c)) return;
  s.slab_free += f.slabs * f.slab_bytes - (f.live + f.cached + f.depot) * f.size;
  s.contentions_depot += layers.depot().Contentions(c);
}

void AddPages(Snapshot& s) {
  const PageStats pages = layers.pages().Stats();
  s.large = pages.large;
  s.large_requested = pages.large_requested;
  s.large_allocations = pages.large_allocations;
  s.large_frees = pages.large_frees;
  s.large_blocks = pages.large_allocations - pages.large_frees;
  s.dirty = pages.dirty;
  s.dirty_peak = pages.dirty_peak;
  s.dirty_due = pages.due;
  s.used_spans = pages.used;
  s.used_spans_peak = pages.used_peak;
  s.held = pages.used + pages.dirty;
  s.held_peak = pages.held_peak;
  s.grown = layers.pages().grown_bytes();
  s.mapped = pages.mapped;
  s.mapped_metadata = layers.metadata().mapped();
  s.metadata_used = layers.metadata().used();
  s.page_map = page_map.leaves.load(std::memory_order_relaxed) * sizeof(PageMap::Leaf);
  s.released = pages.released + layers.central().released_bytes();
  s.contentions_pages = layers.pages().mutex().contentions();
  s.contentions_metadata = layers.metadata().mutex().contentions();
}

}  // namespace

Snapshot Measure() noexcept {
  Snapshot s;
  for (SizeClass c = 1; c < kNumClasses; ++c) AddClass(s, c);
  AddPages(s);
  s.rounding_expected = s.rounding_max / 2 + (s.large - s.large_requested);
  s.rounding_max += s.large - s.large_requested;
  s.allocations += s.large_allocations;
  s.live_objects += s.large_blocks;
  s.live += s.large;
  const uint64_t live_peak = upkeep.peaks().live();
  s.live_peak = live_peak > s.live ? live_peak : s.live;
  s.frees = s.allocations > s.live_objects ? s.allocations - s.live_objects : 0;
  s.caches = layers.front().Caches();
  s.cache_capacity = layers.front().Capacity();
  s.contentions_front = layers.front().Contentions();
  s.threads = threads.registered();
  s.release_calls = system_calls.release_calls.load(std::memory_order_relaxed);
  s.release_time = system_calls.release_nanos.load(std::memory_order_relaxed);
  s.ceiling = upkeep.ceiling();
  s.memory_pressure = upkeep.under_pressure();
  s.released_for_limit = upkeep.released_for_limit();
  s.decay_intervals = upkeep.intervals();
  s.background_thread = upkeep.BackgroundRuns();
  s.arenas = layers.arenas().count.load(std::memory_order_relaxed);
  s.arenas_used = layers.arenas().used.load(std::memory_order_relaxed);
  s.arenas_dirty = layers.arenas().dirty.load(std::memory_order_relaxed);
  return s;
}

}  // namespace granary
