// When the layers give idle memory down and back: at the end of each window of half a decay time,
// by a helper thread in large processes, else in small steps on slow paths.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "central/central.h"
#include "layers/peaks.h"
#include "limits/limits.h"
#include "os/linux.h"
#include "os/yielding_mutex.h"
#include "sizes/size_classes.h"
#include "upkeep/requests.h"
#include "upkeep/thresholds.h"

namespace granary {

class Upkeep {
 public:
  // What others do when upkeep runs. Called with no lock held.
  struct Clients {
    void (*serve)(Requests&) noexcept;    // a request is pending
    void (*tick)(uint64_t now) noexcept;  // with option stats_file, at least once a second
    void (*second_window)() noexcept;     // the process has lived for a whole decay window
  };
  static constexpr uint64_t kTickMillis = 1000;

  constexpr Upkeep() = default;
  // Before the first poll.
  void Bind(const Clients& clients) noexcept { clients_ = clients; }

  // On every slow path, with no lock held.
  void Poll() noexcept {
    if (requests_.Pending()) [[unlikely]]
      ServeRequests();
    if (limits_.ceiling() != Limits::kNone) MakeRoom(0);
    if (helper_.load(std::memory_order_relaxed) != Helper::kRunning) {
      PollWithoutHelper();
    } else if (asleep_.load(std::memory_order_relaxed) != 0) {
      PollAsleep();
    }
  }

  // The same in a call that allocates. Only here may a thread be started: the C library may hold
  // locks of its own while it frees.
  void PollInMalloc() noexcept {
    Poll();
    CheckThresholds();
    if (wanted_.load(std::memory_order_relaxed)) StartHelper();
  }

  // Before `bytes` more are taken: gives unused memory back as far as the heap would then exceed
  // the ceiling of the limits.
  void MakeRoom(size_t bytes) noexcept;
  // Reads the limits anew from the options and the system.
  void ApplyLimits() noexcept {
    Locked hold(running_);
    RefreshLimits();
  }

  // While it exists, no other thread gives memory back.
  class Exclusive {
   public:
    explicit Exclusive(Upkeep& upkeep) : upkeep_(upkeep), hold_(upkeep.running_) {}
    // Between two steps of long work: a thread that waits to fork or exit goes first.
    void Yield() noexcept { upkeep_.running_.Yield(); }

   private:
    Upkeep& upkeep_;
    Locked<YieldingMutex<Linux>> hold_;
  };
  // These give memory back in steps, and let waiting threads have the lock after each step. Called
  // with the lock. The free pages of slabs of all classes;
  void ReleaseSlabs(Central<Linux>::Patience patience) noexcept;
  // up to `bytes` of free spans and blocks;
  void ReleaseSpans(size_t bytes) noexcept;
  // the spans whose decay time has ended.
  void PayDebt() noexcept;

  void AfterLargeFree(size_t bytes) noexcept;
  // After a block of fresh memory was handed out: dirty memory elsewhere did not fit it, and goes
  // back so that it does not add to the peak.
  void AfterFreshLarge(size_t bytes) noexcept;

  Peaks& peaks() { return peaks_; }
  Thresholds& thresholds() { return thresholds_; }
  bool HelperRuns() const { return helper_.load(std::memory_order_relaxed) == Helper::kRunning; }
  // When it first read the clock, in milliseconds; 0 before that.
  uint64_t started() const { return started_; }
  size_t ceiling() const { return limits_.ceiling(); }
  bool pressed() const { return limits_.pressed(); }
  size_t squeezed() const { return squeezed_.load(std::memory_order_relaxed); }
  uint64_t windows() const { return windows_.load(std::memory_order_relaxed); }

  void PrepareFork() noexcept { running_.Lock(); }
  void AfterFork(bool child) noexcept;

 private:
  friend struct Layout;
  static constexpr size_t kFreeGrowth = kMiB;  // what a heap may grow to before it pays for growth
  static constexpr size_t kPayStep = 64 * kKiB;    // what a slow path pays at most
  static constexpr uint32_t kPollsPerClock = 64;   // slow paths between two readings of the clock
  static constexpr uint64_t kRefreshMillis = 500;  // between two readings of the limits
  static constexpr size_t kPollStripes = 8;
  enum class Helper : uint8_t { kNone, kStarting, kRunning, kRefused };

  // Half a decay time.
  static uint64_t WindowMillis() noexcept;
  static uint64_t TickBefore(uint64_t end) noexcept;
  void PollWithoutHelper() noexcept;
  GRANARY_COLD void ServeRequests() noexcept;
  void PollAsleep() noexcept;
  void StartHelper() noexcept;
  static void* HelperMain(void* self) noexcept;
  void HelperLoop() noexcept;
  void WatchGrowth(uint64_t until) noexcept;
  void BeginWindow() noexcept;
  void RunWindow() noexcept;
  void ReleaseStructures() noexcept;
  bool Step() noexcept;
  bool HelperPays() noexcept;
  void CheckThresholds() noexcept {
    if (thresholds_.any()) CallThresholds();
  }
  GRANARY_COLD void CallThresholds() noexcept;
  void ReleaseAbove(size_t bytes) noexcept;
  void RefreshLimits() noexcept;
  void RefreshLimitsIfDue(uint64_t now) noexcept;
  size_t ReleaseFromSlabs(size_t bytes, size_t inspections) noexcept;
  size_t Level() noexcept;
  size_t UnpaidGrowth() noexcept;
  void PayForGrowth(size_t most) noexcept;
  Central<Linux>::Patience PatienceNow() const noexcept;
  size_t DirtyBound() noexcept;
  void ReleaseDownTo(size_t bound, size_t most) noexcept;

  Requests requests_;
  Clients clients_{};
  Peaks peaks_;
  YieldingMutex<Linux> running_;  // held by the thread that gives memory back
  std::atomic<Helper> helper_{Helper::kNone};
  std::atomic<bool> wanted_{false};  // the heap is large enough for a helper
  uint64_t started_ = 0;
  uint64_t not_before_ = 0;              // the earliest time, in milliseconds, to start a helper
  std::atomic<uint32_t> asleep_{0};      // 1 while the helper sleeps; the futex it sleeps on
  std::atomic<bool> dormant_{false};     // the helper sleeps until a thread has work for it
  std::atomic<uint32_t> fresh_seen_{0};  // PageHeap::fresh_trackers when the helper last read it
  uint64_t fresh_at_ = 0;                // when that number last changed, in nanoseconds
  std::atomic<size_t> paid_{0};          // the level that needs no payment
  std::atomic<size_t> credit_{0};        // bytes that payments took out of slabs
  struct alignas(kCacheLine) Polls {
    std::atomic<uint32_t> count{0};
  };
  Polls polls_[kPollStripes];      // by CPU, each on a cache line of its own
  std::atomic<uint64_t> next_{0};  // when the window ends, in milliseconds
  std::atomic<uint64_t> windows_{0};
  std::atomic<uint32_t> step_{0};  // the next step of the work of the last window
  std::atomic<uint32_t> limit_polls_{0};
  std::atomic<uint64_t> refresh_at_{0};  // when to read the limits again, in milliseconds
  size_t map_for_ = 0;                   // the most bytes used since the map was last released
  uint32_t settling_ = 0;                // windows left in which all free memory of structures goes
  std::atomic<size_t> squeezed_{0};      // bytes given back to stay below the ceiling
  Thresholds thresholds_;
  Limits limits_;  // last: it is large, and most processes touch its start only
};

extern Upkeep upkeep __attribute__((visibility("hidden")));

}  // namespace granary
