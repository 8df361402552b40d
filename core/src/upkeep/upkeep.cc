#include "upkeep/upkeep.h"

#include "arena/arenas.h"
#include "layers/layers.h"
#include "unwind/unwind.h"

namespace granary {
namespace {

// age at which a forked child may start a background thread
constexpr uint64_t kChildMillis = 2000;
// dirty memory that a heap of any size may keep without a background thread
constexpr size_t kLeastDirty = 16 * kMiB;
constexpr size_t kMostWithoutDecay = kMiB;  // dirty where free pages have no decay time
constexpr size_t kStepBytes = 512 * kKiB;   // purged in one step on a slow path
constexpr size_t kTurnBytes = 8 * kMiB;     // purged before a waiting thread gets its turn,
constexpr size_t kTurnSlabs = 64;           // or slabs inspected before it
constexpr size_t kLimitedFrom = 16 * kMiB;  // smaller heaps do not read the cgroup's limits
constexpr size_t kLeastMap = 64 * kMiB;     // size of a heap whose page map is worth purging
constexpr size_t kOffsetFrom = 256 * kKiB;  // growth that a slow path offsets
constexpr uint32_t kSteps = kNumSmall + 1;
constexpr uint32_t kSettlingIntervals = 6;  // after the heap has shrunk to half

}  // namespace

// Next to `layers` in memory (layers/layers.cc).
__attribute__((section(".bss.upkeep"))) constinit Upkeep upkeep;

uint64_t Upkeep::IntervalMillis() noexcept {
  const int64_t decay = options.DecayMillis();
  return decay < 0 ? ~uint64_t{0} / 4 : static_cast<uint64_t>(decay) / 2;
}

size_t Upkeep::DirtyBound() noexcept {
  if (options.DecayMillis() == 0) return kMostWithoutDecay;
  const size_t quarter = layers.pages().used_bytes() / 4;
  return quarter > kLeastDirty ? quarter : kLeastDirty;
}

Upkeep::Polls& Upkeep::OwnPolls() noexcept {
  return polls_[static_cast<unsigned>(CurrentIndex()) % kPollStripes];
}

void Upkeep::PollWithoutBackground() noexcept {
  PageHeap<Linux>& pages = layers.pages();
  if (options.dirty_decay_ms >= 0 && pages.dirty_bytes() > DirtyBound() && running_.TryLock()) {
    pages.PurgeDirty(kStepBytes);
    running_.Unlock();
  }
  if (GrowthToOffset() >= kOffsetFrom && options.dirty_decay_ms >= 0 && running_.TryLock()) {
    OffsetGrowth(kOffsetStep);
    running_.Unlock();
  }
  const bool busy = step_.load(std::memory_order_relaxed) < kSteps;
  if (!EveryNth(OwnPolls().count, busy ? 8 : kPollsPerClock)) return;
  if (BackgroundIsWorthIt()) wanted_.store(true, std::memory_order_relaxed);
  if (options.stats_file) clients_.tick(Linux::NowMillis());
  const uint64_t now = Linux::NowMillis();
  if (started_ == 0) started_ = now;
  if (layers.HeldBytes() >= kLimitedFrom) RefreshLimitsIfDue(now);
  if (options.dirty_decay_ms < 0 || !running_.TryLock()) return;
  if (now >= next_.load(std::memory_order_relaxed)) {
    next_.store(now + IntervalMillis(), std::memory_order_relaxed);
    BeginInterval();
    layers.front().ReclaimIdle();
    layers.depot().EndInterval();
    pages.EndInterval();
    if (!options.retain) pages.UnmapFree();
    step_.store(0, std::memory_order_relaxed);
  } else if (busy && !Step()) {
    step_.fetch_add(1, std::memory_order_relaxed);
  }
  running_.Unlock();
}

void Upkeep::BeginInterval() noexcept {
  Linux::PrepareToAbort();
  peaks_.EndInterval(layers.pages().used_bytes());
  offset_level_.store(Level(), std::memory_order_relaxed);
  FitCacheBudget();
  // The first interval begins with the process, and many processes end before the second.
  if (intervals_.fetch_add(1, std::memory_order_relaxed) == 1) clients_.second_interval();
}

Central<Linux>::Eligible Upkeep::EligibleNow() const noexcept {
  return limits_.under_pressure() ? Central<Linux>::Eligible::kFreePages
                                  : Central<Linux>::Eligible::kIdlePages;
}

// Does one bounded step of the work at the end of an interval. False if this step is complete.
bool Upkeep::Step() noexcept {
  const uint32_t step = step_.load(std::memory_order_relaxed);
  const bool pressure = limits_.under_pressure();
  if (step == 0) {
    PageHeap<Linux>& pages = layers.pages();
    return (pressure ? pages.PurgeDirty(kStepBytes) : pages.PurgeDue(kStepBytes)) > 0;
  }
  constexpr size_t kSlabs = 16;
  const auto c = static_cast<SizeClass>(step);
  // Only the slabs that wait now: a slab that was inspected once waits again for the next interval.
  const size_t waiting = layers.central().SlabsToInspect(c);
  layers.central().PurgePages(c, waiting < kSlabs ? waiting : kSlabs, EligibleNow());
  return false;
}

void Upkeep::PurgeSlabs(Central<Linux>::Eligible eligible) noexcept {
  Central<Linux>& central = layers.central();
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    // Only the slabs that wait now: a slab that was inspected once waits again for the next
    // interval.
    for (size_t waiting = central.SlabsToInspect(c); waiting > 0;) {
      const size_t slabs = waiting < kTurnSlabs ? waiting : kTurnSlabs;
      central.PurgePages(c, slabs, eligible);
      waiting -= slabs;
      running_.Yield();
    }
  }
}

void Upkeep::PurgeSpans(size_t bytes) noexcept {
  for (size_t done = 0; done < bytes;) {
    const size_t left = bytes - done;
    const size_t step = layers.pages().PurgeDirty(left < kTurnBytes ? left : kTurnBytes);
    if (step == 0) return;
    done += step;
    running_.Yield();
  }
}

void Upkeep::PurgeDue() noexcept {
  while (layers.pages().PurgeDue(kTurnBytes) > 0) running_.Yield();
}

void Upkeep::RunInterval() noexcept {
  Locked hold(running_);
  BeginInterval();
  RefreshLimits();
  if (layers.profile().Collects()) unwind::Refresh();
  layers.front().ReclaimIdle();
  running_.Yield();
  layers.depot().EndInterval();
  running_.Yield();
  PurgeSlabs(EligibleNow());
  layers.pages().EndInterval();
  if (limits_.under_pressure()) {
    layers.pages().CountFilled();
    PurgeSpans(~size_t{0});
  }
  PurgeDue();
  if (!options.retain) layers.pages().UnmapFree();
  PurgeMetadata();
  EndArenaIntervals();
}

// Purges metadata about free memory. When the heap has shrunk to half: the page map of free memory,
// and in the intervals after that all free pages of other metadata. Otherwise only large amounts of
// the latter.
void Upkeep::PurgeMetadata() noexcept {
  const size_t used = layers.pages().used_bytes();
  if (used > map_for_) map_for_ = used;
  const bool shrunk = map_for_ >= kLeastMap && used < map_for_ / 2;
  if (shrunk) {
    layers.pages().PurgeMap();
    map_for_ = used;
    settling_ = kSettlingIntervals;
  }
  // Structures share pages: while the heap settles, each freed structure may free a page.
  layers.metadata().PurgeFree(settling_ > 0 ? 0 : Metadata<Linux>::kWorthPurging);
  if (settling_ > 0) --settling_;
}

void Upkeep::PurgeDownTo(size_t bound, size_t most) noexcept {
  if (BackgroundRuns() || options.dirty_decay_ms < 0) return;
  const size_t dirty = layers.pages().dirty_bytes();
  if (dirty <= bound || !running_.TryLock()) return;
  const size_t excess = dirty - bound;
  layers.pages().PurgeDirty(excess < most ? excess : most);
  running_.Unlock();
}

void Upkeep::AfterLargeFree(size_t bytes) noexcept {
  Poll();
  PurgeDownTo(DirtyBound(), 2 * bytes);
}

void Upkeep::AfterFreshLarge(size_t bytes) noexcept { PurgeDownTo(kLeastDirty / 4, bytes); }

void Upkeep::AfterFork(bool child) noexcept {
  if (!child) return running_.Unlock();
  running_.Reset();
  background_.store(Background::kNone);
  wanted_.store(false);
  not_before_ = Linux::NowMillis() + kChildMillis;
  retry_at_ = 0;
  asleep_.store(0);
  requests_.Forget();
  thresholds_.ResetLock();
}

}  // namespace granary
