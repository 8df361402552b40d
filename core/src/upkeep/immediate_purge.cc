// Purges memory before the end of its decay time, to stay below a limit or to offset growth: a heap
// that grows returns as much idle memory.
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary {
namespace {

constexpr size_t kUrgent = 2 * kMiB;  // above the ceiling
constexpr size_t kConcession = kMiB;  // how far a heap without free memory may then grow
constexpr size_t kOffsetSlabs = 16;   // slabs inspected for each step of an offset
// Growth purges slabs only of a class with so many free bytes. With fewer, each call purges a page
// or two that the program soon uses again, and interrupts every CPU of the process for it.
constexpr size_t kOffsetClassBytes = 512 * kKiB;
// To stay below a ceiling, classes with so many are purged too.
constexpr size_t kCeilingClassBytes = 64 * kKiB;

}  // namespace

void Upkeep::CallThresholds() noexcept { thresholds_.Check(layers.HeldBytes()); }

void Upkeep::RefreshLimits() noexcept {
  refresh_at_.store(Linux::NowMillis() + kRefreshMillis, std::memory_order_relaxed);
  limits_.Refresh(layers.ResidentBytes());
  const size_t ceiling = limits_.ceiling();
  layers.pages().SetHugeBelow(ceiling == Limits::kNone ? ceiling : ceiling / 4);
  layers.pages().SetMost(options.hard_limit > 0 ? static_cast<size_t>(options.hard_limit)
                                                : ~size_t{0});
}

// The background thread refreshes the limits in each decay interval. Without a background thread,
// or in a long interval, the slow paths do.
void Upkeep::RefreshLimitsIfDue(uint64_t now) noexcept {
  if (now < refresh_at_.load(std::memory_order_relaxed) || !running_.TryLock()) return;
  RefreshLimits();
  running_.Unlock();
}

void Upkeep::MakeRoom(size_t bytes) noexcept {
  if (EveryNth(OwnPolls().limits, kPollsPerClock)) RefreshLimitsIfDue(Linux::NowMillis());
  const size_t ceiling = limits_.ceiling();
  if (layers.HeldBytes() + bytes <= ceiling || layers.ResidentBytes() + bytes <= ceiling) return;
  // Far above the ceiling, waiting for the thread that purges now is better than exceeding the
  // limit.
  if (layers.ResidentBytes() + bytes > ceiling + kUrgent) {
    running_.Lock();
  } else if (!running_.TryLock()) {
    return;
  }
  PurgeAboveCeiling(bytes);
  running_.Unlock();
}

void Upkeep::PurgeAboveCeiling(size_t bytes) noexcept {
  const size_t ceiling = limits_.ceiling();
  const size_t wanted = layers.ResidentBytes() + bytes;
  if (wanted <= ceiling) return;
  const size_t excess = wanted - ceiling;
  size_t purged = layers.pages().PurgeDirty(excess);
  if (purged < excess) {
    purged += PurgeFromSlabs(excess - purged, kCeilingClassBytes, ~size_t{0});
  }
  released_for_limit_.fetch_add(purged, std::memory_order_relaxed);
  // Memory in use cannot be purged. A heap that needs more than the ceiling exceeds it, and the
  // kernel decides.
  if (purged < excess) limits_.Raise(ceiling + excess - purged + kConcession);
}

// The held bytes, without the pages in slabs that were purged to offset growth.
size_t Upkeep::Level() noexcept {
  const size_t held = layers.HeldBytes();
  const size_t purged = offset_in_slabs_.load(std::memory_order_relaxed);
  return held > purged ? held - purged : 0;
}

// How far the heap has risen above the level at which the decay interval began or an offset
// ended.
size_t Upkeep::GrowthToOffset() noexcept {
  const size_t level = Level();
  const size_t offset = offset_level_.load(std::memory_order_relaxed);
  const size_t base = offset > kGrowthWithoutOffset ? offset : kGrowthWithoutOffset;
  return level > base ? level - base : 0;
}

// Purges free pages of slabs, first in the classes with the most free pages; none of classes with
// less than `least` free bytes.
size_t Upkeep::PurgeFromSlabs(size_t bytes, size_t least, size_t inspections) noexcept {
  size_t done = 0;
  for (; done < bytes && inspections > 0; --inspections) {
    const SizeClass c = layers.central().Idlest();
    if (layers.central().FreeBytes(c) < least) break;
    done += layers.central().PurgePages(c, 1, Central<Linux>::Eligible::kFreePages);
  }
  return done;
}

// When the heap grows while slabs of idle classes, or spans that were free during the whole decay
// interval, have free pages, purges the same amount of these immediately, so that the heap grows no
// further than necessary. Called with running_ held.
void Upkeep::OffsetGrowth(size_t most) noexcept {
  const size_t growth = GrowthToOffset();
  const size_t wanted = growth < most ? growth : most;
  const size_t slabs =
      PurgeFromSlabs(wanted, kOffsetClassBytes, wanted / kOffsetStep * kOffsetSlabs);
  offset_in_slabs_.fetch_add(slabs, std::memory_order_relaxed);
  size_t done = slabs;
  if (done < wanted) {
    const size_t idle = layers.pages().IdleBytes();
    done += layers.pages().PurgeDirty(wanted - done < idle ? wanted - done : idle);
  }
  // No more memory can be purged: the rest of the growth is not offset.
  if (done < wanted) offset_level_.store(Level(), std::memory_order_relaxed);
}

}  // namespace granary
