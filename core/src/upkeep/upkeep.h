// Upkeep: moves idle memory down through the layers and purges it. This happens at the end of each
// decay interval (half a decay time), on a background thread in large processes and in small steps
// on slow paths in others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hint.h"
#include "central/central.h"
#include "layers/peaks.h"
#include "limits/limits.h"
#include "os/linux.h"
#include "os/yielding_mutex.h"
#include "sizes/size_classes.h"
#include "upkeep/cache_budget.h"
#include "upkeep/requests.h"
#include "upkeep/thresholds.h"

namespace granary {

class Upkeep {
 public:
  // Functions of other folders that upkeep calls, with no lock held.
  struct Clients {
    void (*serve)(Requests&) noexcept;    // a request is pending
    void (*tick)(uint64_t now) noexcept;  // with option stats_file, at least once a second
    void (*second_interval)() noexcept;   // the process has lived for a whole decay interval
  };
  static constexpr uint64_t kTickMillis = 1000;

  constexpr Upkeep() = default;
  // Called before the first poll.
  void Bind(const Clients& clients) noexcept {
    clients_ = clients;
    cpus_ = Linux::Cpus();
  }

  // Called once, when the program's modules are loaded and no other thread waits for the lock of
  // their list.
  static void MeasureThreadStorage() noexcept;

  // Called on every slow path, with no lock held.
  void Poll() noexcept {
    if (requests_.Pending()) [[unlikely]]
      ServeRequests();
    if (limits_.ceiling() != Limits::kNone) MakeRoom(0);
    if (background_.load(std::memory_order_relaxed) != Background::kRunning) {
      PollWithoutBackground();
    } else if (asleep_.load(std::memory_order_relaxed) != 0) {
      PollAsleep();
    }
  }

  // The same in a call that allocates. Only here may a thread be started: while the C library
  // frees, it may hold locks of its own.
  void PollInMalloc() noexcept {
    Poll();
    CheckThresholds();
    if (wanted_.load(std::memory_order_relaxed)) StartBackground();
  }

  // Called before the heap grows by `bytes`: purges free memory as far as the heap would otherwise
  // exceed the ceiling.
  void MakeRoom(size_t bytes) noexcept;
  // Reads the limits again from the options and the system.
  void ApplyLimits() noexcept {
    Locked hold(running_);
    RefreshLimits();
  }

  // While it exists, no other thread purges.
  class Exclusive {
   public:
    explicit Exclusive(Upkeep& upkeep) : upkeep_(upkeep), hold_(upkeep.running_) {}
    // Called between two steps of long work: a thread that waits to fork or exit goes first.
    void Yield() noexcept { upkeep_.running_.Yield(); }

   private:
    Upkeep& upkeep_;
    Locked<YieldingMutex<Linux>> hold_;
  };
  // These functions purge in steps. They are called with the lock, and let waiting threads have it
  // after each step. PurgeSlabs purges the free pages of slabs of all classes,
  void PurgeSlabs(Central<Linux>::Eligible eligible) noexcept;
  // PurgeSpans purges up to `bytes` of free spans and blocks,
  void PurgeSpans(size_t bytes) noexcept;
  // and PurgeDue purges the due spans.
  void PurgeDue() noexcept;

  void AfterLargeFree(size_t bytes) noexcept;
  // Called after a block was allocated in clean memory. The dirty memory did not fit the block, and
  // is purged so that it does not add to the peak.
  void AfterFreshLarge(size_t bytes) noexcept;

  // Called after an allocation on a slow path, with no lock held. `used` is the number of bytes in
  // use in the page heap.
  void NoteUsed(size_t used) noexcept {
    if (peaks_.Note(used)) [[unlikely]]
      FitCacheBudget();
  }

  Peaks& peaks() { return peaks_; }
  Thresholds& thresholds() { return thresholds_; }
  bool BackgroundRuns() const {
    return background_.load(std::memory_order_relaxed) == Background::kRunning;
  }
  // When upkeep first read the clock, in milliseconds; 0 before that.
  uint64_t started() const { return started_; }
  size_t ceiling() const { return limits_.ceiling(); }
  bool under_pressure() const { return limits_.under_pressure(); }
  size_t released_for_limit() const { return released_for_limit_.load(std::memory_order_relaxed); }
  uint64_t intervals() const { return intervals_.load(std::memory_order_relaxed); }

  void PrepareFork() noexcept { running_.Lock(); }
  void AfterFork(bool child) noexcept;

 private:
  friend struct DescriptorRows;
  // smaller heaps offset no growth
  static constexpr size_t kGrowthWithoutOffset = kMiB;
  static constexpr size_t kOffsetStep =
      64 * kKiB;  // the maximum that a slow path purges to offset growth
  static constexpr uint32_t kPollsPerClock = 64;   // slow paths between two readings of the clock
  static constexpr uint64_t kRefreshMillis = 500;  // time between two readings of the limits
  static constexpr size_t kPollStripes = 8;
  enum class Background : uint8_t { kNone, kStarting, kRunning, kImpossible };

  // Half of the decay time.
  static uint64_t IntervalMillis() noexcept;
  static uint64_t BackgroundMillis() noexcept;
  static uint64_t TickBefore(uint64_t end) noexcept;
  void PollWithoutBackground() noexcept;
  GRANARY_COLD void ServeRequests() noexcept;
  void PollAsleep() noexcept;
  void StartBackground() noexcept;
  static void* BackgroundMain(void* self) noexcept;
  void BackgroundLoop() noexcept;
  void WatchGrowth(uint64_t until) noexcept;
  void BeginInterval() noexcept;
  void RunInterval() noexcept;
  void PurgeMetadata() noexcept;
  bool Step() noexcept;
  bool BackgroundIsWorthIt() noexcept;
  void CheckThresholds() noexcept {
    if (thresholds_.any()) CallThresholds();
  }
  GRANARY_COLD void CallThresholds() noexcept;
  void PurgeAboveCeiling(size_t bytes) noexcept;
  void RefreshLimits() noexcept;
  void RefreshLimitsIfDue(uint64_t now) noexcept;
  size_t PurgeFromSlabs(size_t bytes, size_t least, size_t inspections) noexcept;
  size_t Level() noexcept;
  size_t GrowthToOffset() noexcept;
  void OffsetGrowth(size_t most) noexcept;
  Central<Linux>::Eligible EligibleNow() const noexcept;
  size_t DirtyBound() noexcept;
  void PurgeDownTo(size_t bound, size_t most) noexcept;

  Requests requests_;
  Clients clients_{};
  Peaks peaks_;
  YieldingMutex<Linux> running_;  // held by the thread that purges
  std::atomic<Background> background_{Background::kNone};
  std::atomic<bool> wanted_{false};  // the heap is large enough for a background thread
  uint64_t started_ = 0;
  uint64_t retry_at_ = 0;    // after a refusal, the earliest time to start a background thread
  CpuMask cpus_{};           // those of the process at its start
  uint64_t not_before_ = 0;  // the earliest time, in milliseconds, to start a background thread
  std::atomic<uint32_t> asleep_{0};  // 1 while the background thread sleeps; the futex it sleeps on
  std::atomic<bool> dormant_{false};  // the background thread sleeps until a thread has work for it
  // PageHeap::fresh_trackers when the background thread last read it
  std::atomic<uint32_t> fresh_seen_{0};
  uint64_t fresh_at_ = 0;                   // when that number last changed, in nanoseconds
  std::atomic<size_t> offset_level_{0};     // growth above this level is to be offset
  std::atomic<size_t> offset_in_slabs_{0};  // bytes in slabs purged to offset growth
  // Threads of one CPU may lose a poll: a locked operation would cost each slow path more.
  struct alignas(kCacheLine) Polls {
    Hint<uint32_t> count;
    Hint<uint32_t> limits;  // the same below a ceiling
  };
  static bool EveryNth(Hint<uint32_t>& polls, uint32_t n) noexcept {
    const uint32_t before = polls;
    polls = before + 1;
    return before % n == 0;
  }
  Polls& OwnPolls() noexcept;
  Polls polls_[kPollStripes];      // one per CPU, each on a cache line of its own
  std::atomic<uint64_t> next_{0};  // when the decay interval ends, in milliseconds
  std::atomic<uint64_t> intervals_{0};
  std::atomic<uint32_t> step_{0};  // the next step of the work at the end of the last interval
  std::atomic<uint64_t> refresh_at_{0};  // when to read the limits again, in milliseconds
  size_t map_for_ = 0;     // peak of the bytes in use since the page map was last purged
  uint32_t settling_ = 0;  // intervals left in which all free metadata is purged
  std::atomic<size_t> released_for_limit_{0};  // bytes purged to stay below the ceiling
  Thresholds thresholds_;
  Limits limits_;  // the last member: it is large, and most processes touch only its start
};

extern Upkeep upkeep __attribute__((visibility("hidden")));

}  // namespace granary
