// Immediate purge: purges memory before the end of its decay time, to stay below a limit or to
// pay for growth.
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary {
namespace {

constexpr size_t kUrgent = 2 * kMiB;  // above the ceiling
constexpr size_t kConcession = kMiB;  // how far a heap without free memory may then grow
constexpr size_t kPaySlabs = 16;      // slabs inspected for each step of a payment

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
  if (limit_polls_.fetch_add(1, std::memory_order_relaxed) % kPollsPerClock == 0)
    RefreshLimitsIfDue(Linux::NowMillis());
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
  size_t given = layers.pages().PurgeDirty(excess);
  if (given < excess) given += PurgeFromSlabs(excess - given, ~size_t{0});
  squeezed_.fetch_add(given, std::memory_order_relaxed);
  // Memory in use cannot be purged. A heap that needs more than the ceiling exceeds it, and the
  // kernel decides.
  if (given < excess) limits_.Raise(ceiling + excess - given + kConcession);
}

// The held bytes, without the pages that payments purged in slabs.
size_t Upkeep::Level() noexcept {
  const size_t held = layers.HeldBytes();
  const size_t credit = credit_.load(std::memory_order_relaxed);
  return held > credit ? held - credit : 0;
}

// How far the heap has risen above the level at which the decay interval began or a payment ended.
size_t Upkeep::UnpaidGrowth() noexcept {
  const size_t level = Level();
  const size_t paid = paid_.load(std::memory_order_relaxed);
  const size_t base = paid > kFreeGrowth ? paid : kFreeGrowth;
  return level > base ? level - base : 0;
}

// Purges free pages of slabs, first in the classes with the most free pages.
size_t Upkeep::PurgeFromSlabs(size_t bytes, size_t inspections) noexcept {
  size_t done = 0;
  for (; done < bytes && inspections > 0; --inspections) {
    const SizeClass c = layers.central().Idlest();
    if (layers.central().FreeBytes(c) < kPayStep) break;
    done += layers.central().PurgePages(c, 1, Central<Linux>::Eligible::kFreePages);
  }
  return done;
}

// When the heap grows while slabs of idle classes, or spans that were free during the whole decay
// interval, have free pages, purges the same amount of these immediately, so that the heap grows no
// further than necessary. Called with running_ held.
void Upkeep::PayForGrowth(size_t most) noexcept {
  const size_t unpaid = UnpaidGrowth();
  const size_t due = unpaid < most ? unpaid : most;
  const size_t slabs = PurgeFromSlabs(due, due / kPayStep * kPaySlabs);
  credit_.fetch_add(slabs, std::memory_order_relaxed);
  size_t done = slabs;
  if (done < due) {
    const size_t idle = layers.pages().IdleBytes();
    done += layers.pages().PurgeDirty(due - done < idle ? due - done : idle);
  }
  // No more memory can be purged: the rest of the debt is dropped.
  if (done < due) paid_.store(Level(), std::memory_order_relaxed);
}

}  // namespace granary
