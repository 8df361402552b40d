// Huge pages: which fresh memory may have them, and what happens to a huge page when a part of it
// is purged. The kernel keeps such a page whole until memory is short: the RSS of the process
// falls, but the memory in use does not. So the page is split first, and the region has small pages
// until all of it is purged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pages/page_core.h"

namespace granary {

enum class HugePolicy : uint8_t { kLargeHeaps, kAlways, kNever };

template <Os System>
class HugePages {
 public:
  void Bind(PageCore<System>& core) { core_ = &core; }

  void SetPolicy(HugePolicy policy) { policy_.store(policy, std::memory_order_relaxed); }
  // Allows huge pages only while less than `bytes` are committed.
  void SetBelow(size_t bytes) { refused_.store(~bytes, std::memory_order_relaxed); }

  // Called with the lock, before each step of growth: whether a heap with so many committed bytes
  // may have huge pages in its next chunk. A heap that grows fast fills them soon, so it may even
  // if it is small.
  bool Allows(size_t committed, Density density) {
    // A larger one would make trackers resident that nobody uses.
    if (HugePageBytes<System>() != kTrackerBytes) return false;
    const HugePolicy policy = policy_.load(std::memory_order_relaxed);
    const size_t from = GrowsFast(committed) ? kFromIfFast : kFrom;
    return policy == HugePolicy::kAlways ||
           (policy == HugePolicy::kLargeHeaps && committed >= from && density == Density::kDense &&
            committed < ~refused_.load(std::memory_order_relaxed));
  }

  // Called with the lock: spans begin to use the untouched region of t, which may have a huge page.
  void NoteFresh(const Tracker* t) {
    const uint32_t fresh = fresh_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!t->MayBeHuge() || t->dirty_count > 0 || core_->figures.mapped_bytes() >= kFrom) return;
    const bool doubtful = nanos_ >= kSlowNanos / 4;
    if (doubtful || fresh % kMeasured == 1) measure_.store(true, std::memory_order_relaxed);
  }
  // Whether to measure the cost of the region that was taken last. Few are measured, because this
  // is in the program's own call. Resets the answer.
  bool TakeMeasure() {
    return measure_.load(std::memory_order_relaxed) &&
           measure_.exchange(false, std::memory_order_relaxed);
  }
  // The number of such regions.
  uint32_t fresh() const { return fresh_.load(std::memory_order_relaxed); }

  // Whether huge pages took so much time recently that fresh memory has small pages. Then few of
  // the fresh regions try a huge page.
  bool IsSlow() const { return backoff_.load(std::memory_order_relaxed) != 0; }
  bool MayTry() const {
    const uint32_t left = retry_at_ - fresh();
    return !IsSlow() || left > kMostBackoff || left == 0;
  }
  // Called with the lock, after the kernel made a huge page in `nanos` of CPU time. One slow page
  // among fast ones has little effect; while all are slow, one fast page ends the back-off.
  void NoteCost(uint64_t nanos) {
    const uint32_t before = backoff_.load(std::memory_order_relaxed);
    nanos_ = before > 0 ? nanos : nanos_ - nanos_ / 8 + nanos / 8;
    uint32_t backoff = 0;
    if (nanos_ > kSlowNanos && policy_.load(std::memory_order_relaxed) == HugePolicy::kLargeHeaps) {
      backoff = before == 0 ? kFirstBackoff : before < kMostBackoff ? before * 2 : kMostBackoff;
    }
    backoff_.store(backoff, std::memory_order_relaxed);
    retry_at_ = fresh() + backoff;
  }

  // Called with the lock: whether the region of t must be split now, by Split without the lock.
  bool NoteSplit(Tracker* t) {
    if (!t->MayBeHuge()) return false;
    const int more = 2 - 2 * SplitNeighbours(t);
    if (more > 0 && split_borders_ + more > kMostSplitBorders) return false;
    split_borders_ += more;
    t->split = true;
    return true;
  }
  // Called with the lock, when all of t is purged: whether huge pages must be allowed again.
  bool NoteWhole(Tracker* t) {
    if (!t->split) return false;
    split_borders_ -= 2 - 2 * SplitNeighbours(t);
    t->split = false;
    return true;
  }
  // p is any address in the purged part.
  static void Split(Tracker* t, void* p) {
    System::AllowHuge(t->base, kTrackerBytes, false);
    System::SplitHuge(p);
  }
  // Called without the lock, before a part of the region of p is purged.
  void SplitAt(void* p) {
    Tracker* const t = core_->map->TrackerAt(p);
    core_->mutex.Lock();
    const bool splits = NoteSplit(t);
    core_->mutex.Unlock();
    if (splits) Split(t, p);
  }

  int SplitNeighbours(const Tracker* t) const {
    int split = 0;
    for (const char* at : {t->base - kTrackerBytes, t->base + kTrackerBytes}) {
      const Tracker* const neighbour = core_->map->TrackerAt(at);
      if (neighbour != nullptr && neighbour->split) ++split;
    }
    return split;
  }
  int split_borders() const { return split_borders_; }

 private:
  static constexpr size_t kFrom = 512 * kMiB, kFromIfFast = 64 * kMiB;
  // Growth is fast if the last few steps committed at least so many bytes per millisecond.
  static constexpr size_t kFastBytes = 320 * kKiB;
  static constexpr size_t kSteps = 4;
  // The cost of one in so many regions below kFrom is measured.
  static constexpr uint32_t kMeasured = 8;
  // A huge page takes 0.1 to 0.4 ms of CPU time; 4 to 5 ms if the host of a virtual machine has
  // reclaimed the memory. Then small pages are faster.
  static constexpr uint64_t kSlowNanos = 1000000;
  // The number of regions by which the heap grows before it tries the next huge page: the first
  // value and the maximum.
  static constexpr uint32_t kFirstBackoff = 16, kMostBackoff = 1024;
  // Each border of a split region is a border of two mappings. The kernel limits their number:
  // 65,530 by default.
  static constexpr int kMostSplitBorders = 16384;

  struct Step {
    size_t committed = 0;
    uint64_t at = 0;  // in milliseconds
  };
  // Whether the heap used its last commits within a short time.
  bool GrowsFast(size_t committed) {
    const Step now{committed, System::NowMillis()};
    const Step before = std::exchange(steps_[step_++ % kSteps], now);
    return committed > before.committed &&
           committed - before.committed >= (now.at - before.at) * kFastBytes;
  }

  PageCore<System>* core_ = nullptr;
  std::atomic<HugePolicy> policy_{HugePolicy::kLargeHeaps};
  std::atomic<size_t> refused_{0};  // the complement of SetBelow's value: zero is no limit
  std::atomic<uint32_t> fresh_{0};
  std::atomic<uint32_t> backoff_{0};  // regions; 0 while huge pages are fast
  uint32_t retry_at_ = 0;             // value of fresh_ at the next attempt
  uint64_t nanos_ = 0;                // the recent cost of a huge page
  int split_borders_ = 0;
  Step steps_[kSteps];  // of growth: the last few
  uint32_t step_ = 0;
  std::atomic<bool> measure_{false};  // measure the region that was taken last
};

}  // namespace granary
