#include "entry/jemalloc/figures.h"

#include "entry/heap.h"
#include "entry/measure.h"

namespace granary::jemalloc {
namespace {

Mutex<Linux> lock;
uint64_t epoch;
TotalFigures totals;
ArenaFigures main_arena;

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
uint64_t AtLeast(uint64_t a, uint64_t b) { return a > b ? a : b; }

void ReadBin(ArenaFigures& arena, size_t bin) {
  const ClassFigures f = MeasureClass(static_cast<SizeClass>(bin + 1));
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

void ReadExtent(ArenaFigures& arena, size_t extent) {
  ExtentFigures& to = arena.lextents[extent];
  if (extent < kMediumExtents) {
    const ClassFigures f = MeasureClass(static_cast<SizeClass>(kNumSmall + extent));
    to.curlextents = f.live;
    to.nmalloc = AtLeast(f.allocations, f.live);
    to.ndalloc = to.nmalloc - f.live;
    arena.large.allocated += f.live * f.size;
    arena.tcache_bytes += (f.cached + f.depot) * f.size;
  } else {
    const LargeCounts counts = heap.pages().CountsOf(extent - kMediumExtents);
    to.nmalloc = counts.made;
    to.ndalloc = counts.gone < counts.made ? counts.gone : counts.made;
    to.curlextents = to.nmalloc - to.ndalloc;
  }
  to.nrequests = to.nmalloc;
  arena.large.nmalloc += to.nmalloc;
  arena.large.ndalloc += to.ndalloc;
}

void ReadArena(ArenaFigures& arena) {
  arena = {};
  for (size_t bin = 0; bin < kBins; ++bin) ReadBin(arena, bin);
  for (size_t extent = 0; extent < kExtents; ++extent) ReadExtent(arena, extent);
  arena.small.nrequests = arena.small.nmalloc;
  arena.large.nrequests = arena.large.nmalloc;
  const size_t page = heap.pages().OsPage();
  const Snapshot s = Measure();
  arena.large.allocated += s.large;
  const uint64_t live = arena.small.allocated + arena.large.allocated;
  // Pages of slabs that hold nothing are not active: they are not resident, either.
  const uint64_t active = RoundUp(AtLeast(Less(s.used_spans, s.slab_clean), live), page);
  arena.nthreads = s.threads;
  const uint64_t started = heap.upkeep().started();
  arena.uptime = started == 0 ? 0 : Less(Linux::NowMillis(), started) * 1000000;
  arena.dirty_decay_ms = static_cast<uint64_t>(options.dirty_decay_ms);
  arena.muzzy_decay_ms = static_cast<uint64_t>(options.muzzy_decay_ms);
  arena.pactive = active / page;
  arena.pdirty = s.dirty / page;
  arena.dirty_npurge = arena.dirty_nmadvise = s.release_calls;
  arena.dirty_purged = s.released / page;
  arena.base = s.metadata_used;
  arena.resident = active + s.dirty + s.metadata_used;
  arena.mapped = active + s.dirty;
  arena.retained = Less(s.mapped, arena.mapped);
  arena.metadata_rtree = 0;
}

}  // namespace

void Refresh() noexcept {
  heap.EnsureInit();
  Locked hold(lock);
  ReadArena(main_arena);
  const size_t page = heap.pages().OsPage();
  TotalFigures t{};
  t.allocated = main_arena.small.allocated + main_arena.large.allocated;
  t.active = main_arena.pactive * page;
  t.metadata = main_arena.base + main_arena.internal;
  t.resident = main_arena.resident;
  t.mapped = main_arena.mapped + main_arena.base;
  t.retained = main_arena.retained;
  totals = t;
  ++epoch;
}

uint64_t Epoch() noexcept { return epoch; }
const TotalFigures& Totals() noexcept { return totals; }

const ArenaFigures* FiguresOf(size_t arena) noexcept {
  return arena == 0 || arena == kAllArenas ? &main_arena : nullptr;
}

}  // namespace granary::jemalloc
