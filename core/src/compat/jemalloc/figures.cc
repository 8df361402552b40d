#include "compat/jemalloc/figures.h"

#include "arena/arena.h"
#include "compat/jemalloc/fill.h"
#include "heap/heap.h"
#include "reflect/measure.h"

namespace granary::jemalloc {
namespace {

Mutex<Linux> lock;
uint64_t epoch;
TotalFigures totals;
ArenaFigures main_arena;
ArenaFigures merged;

void ReadMain() {
  const PageFigures pages{heap.pages().Stats(), heap.metadata().used(),
                          heap.metadata().mapped_huge() / kTrackerBytes};
  FillFigures(
      main_arena, pages, [](SizeClass c) { return MeasureClass(c); },
      [](size_t group) { return heap.pages().CountsOf(group); });
  const Snapshot s = Measure();
  const uint64_t started = heap.upkeep().started();
  main_arena.nthreads = s.threads;
  main_arena.uptime = started == 0 ? 0 : Less(Linux::NowMillis(), started) * 1000000;
  main_arena.dirty_decay_ms = static_cast<uint64_t>(options.dirty_decay_ms);
  main_arena.muzzy_decay_ms = static_cast<uint64_t>(options.muzzy_decay_ms);
  main_arena.dirty_npurge = main_arena.dirty_nmadvise = s.release_calls;
  main_arena.dirty_purged = s.released / heap.pages().OsPage();
}

// Every figure is a row of uint64_t.
void AddTo(ArenaFigures& sum, const ArenaFigures& more) {
  static_assert(sizeof(ArenaFigures) % sizeof(uint64_t) == 0);
  auto* const to = reinterpret_cast<uint64_t*>(&sum);
  const auto* const from = reinterpret_cast<const uint64_t*>(&more);
  const uint64_t uptime = sum.uptime, dirty = sum.dirty_decay_ms, muzzy = sum.muzzy_decay_ms;
  for (size_t i = 0; i < sizeof sum / sizeof *to; ++i) to[i] += from[i];
  sum.uptime = uptime;
  sum.dirty_decay_ms = dirty;
  sum.muzzy_decay_ms = muzzy;
}

}  // namespace

void Refresh() noexcept {
  heap.EnsureInit();
  Locked hold(lock);
  ReadMain();
  merged = main_arena;
  ForEachArena([](Arena& arena) {
    arena.Read(arena.figures);
    AddTo(merged, arena.figures);
  });
  TotalFigures t{};
  t.allocated = merged.small.allocated + merged.large.allocated;
  t.active = merged.pactive * heap.pages().OsPage();
  t.metadata = merged.base + merged.internal;
  t.metadata_thp = merged.metadata_thp;
  t.resident = merged.resident;
  t.mapped = merged.mapped + merged.base;
  t.retained = merged.retained;
  totals = t;
  ++epoch;
}

uint64_t Epoch() noexcept { return epoch; }
const TotalFigures& Totals() noexcept { return totals; }

const ArenaFigures* FiguresOf(size_t index) noexcept {
  if (index == 0) return &main_arena;
  if (index == kAllArenas) return &merged;
  Arena* const arena = ArenaAt(index);
  return arena == nullptr ? nullptr : &arena->figures;
}

}  // namespace granary::jemalloc
