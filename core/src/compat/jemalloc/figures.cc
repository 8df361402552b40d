#include "compat/jemalloc/figures.h"

#include "arena/arenas.h"
#include "compat/jemalloc/fill.h"
#include "inspection/measure.h"
#include "layers/class_figures.h"
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary::jemalloc {
namespace {

Mutex<Linux> lock;
uint64_t epoch;
TotalFigures totals;
ArenaFigures main_arena;
ArenaFigures merged;

// The figures of each other arena, in memory that is mapped when the figures are first read.
struct Read {
  uint64_t serial;  // of the arena whose figures these are
  ArenaFigures figures;
};
std::atomic<Read*> reads[kAllArenas];
ArenaFigures never_read;

void ReadMain() {
  const PageFigures pages{layers.pages().Stats(), layers.metadata().used(),
                          layers.metadata().mapped_huge() / kTrackerBytes};
  FillFigures(
      main_arena, pages, [](SizeClass c) { return MeasureClass(c); },
      [](size_t group) { return layers.pages().CountsOf(group); });
  const Snapshot s = Measure();
  const uint64_t started = upkeep.started();
  main_arena.nthreads = s.threads;
  main_arena.uptime = started == 0 ? 0 : Less(Linux::NowMillis(), started) * 1000000;
  main_arena.dirty_decay_ms = static_cast<uint64_t>(options.dirty_decay_ms);
  main_arena.muzzy_decay_ms = static_cast<uint64_t>(options.muzzy_decay_ms);
  main_arena.dirty_npurge = main_arena.dirty_nmadvise = s.release_calls;
  main_arena.dirty_purged = s.released / layers.pages().OsPage();
}

void ReadInto(ArenaFigures& figures, Arena& arena) {
  FillFigures(
      figures, {arena.MeasurePages(), arena.metadata_used()},
      [&](SizeClass c) { return arena.MeasureClass(c); },
      [&](size_t group) { return arena.CountsOf(group); });
  figures.uptime = (Linux::NowMillis() - arena.started()) * 1000000;
  figures.dirty_decay_ms = static_cast<uint64_t>(arena.decay[0]);
  figures.muzzy_decay_ms = static_cast<uint64_t>(arena.decay[1]);
}

// nullptr when the system refuses memory.
const ArenaFigures* ReadArena(Arena& arena) {
  std::atomic<Read*>& slot = reads[arena.index()];
  Read* read = slot.load(std::memory_order_relaxed);
  if (read == nullptr) {
    constexpr size_t kUnit = 64 * kKiB;
    read = static_cast<Read*>(Linux::Map(RoundUp(sizeof(Read), kUnit), kUnit, nullptr));
    if (read == nullptr) return nullptr;
    slot.store(read, std::memory_order_release);
  }
  ReadInto(read->figures, arena);
  read->serial = arena.serial();
  return &read->figures;
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
  Locked hold(lock);
  ReadMain();
  merged = main_arena;
  ForEachArena([](Arena& arena) {
    if (const ArenaFigures* const figures = ReadArena(arena)) AddTo(merged, *figures);
  });
  TotalFigures t{};
  t.allocated = merged.small.allocated + merged.large.allocated;
  t.active = merged.pactive * layers.pages().OsPage();
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
  if (arena == nullptr) return nullptr;
  const Read* const read = reads[index].load(std::memory_order_acquire);
  return read == nullptr || read->serial != arena->serial() ? &never_read : &read->figures;
}

}  // namespace granary::jemalloc
