// The page heap: spans of granules inside trackers, blocks of whole trackers, and what of the free
// memory still holds pages ("dirty"). Thread-safe; one lock, never held across a system call but
// the rare one that reserves address space.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>

#include "base/low_water.h"
#include "os/mutex.h"
#include "os/os.h"
#include "pages/free_runs.h"
#include "pages/metadata.h"
#include "pages/page_map.h"
#include "pages/span_lists.h"

namespace granary {

struct Memory {
  void* p = nullptr;
  uint64_t dirty = 0;  // a bit for each of the first 64 granules that may hold old bytes

  bool Zero() const { return dirty == 0; }  // for at most 64 granules, and for large blocks
};

// Blocks of whole trackers of about one size, so far: handed out at it, and no longer of it.
struct LargeCounts {
  uint32_t made = 0;
  uint32_t gone = 0;
};

// Four sizes to a doubling of a MiB.
inline constexpr size_t kLargeGroups = 104;
constexpr size_t LargeGroupOf(size_t bytes) {
  if (bytes <= kMaxMedium) return 0;
  const size_t doubling = static_cast<size_t>(std::bit_width((bytes - 1) / kMaxMedium)) - 1;
  const size_t from = kMaxMedium << doubling;
  const size_t group = doubling * 4 + (bytes - from - 1) / (from / 4);
  return group < kLargeGroups ? group : kLargeGroups - 1;
}

// What becomes of fresh memory decides whether huge pages pay: slabs fill up, while a span or a
// block of its own may leave much of its last 2 MiB untouched.
enum class Fill : bool { kSparse, kDense };
// That of a block: dense if its end leaves at most an eighth of its size untouched.
constexpr Fill FillOf(size_t bytes) {
  const size_t untouched = RoundUp(bytes, kTrackerBytes) - bytes;
  return untouched <= bytes / 8 ? Fill::kDense : Fill::kSparse;
}

struct PageStats {
  size_t mapped = 0;    // bytes of address space for the heap
  size_t used = 0;      // bytes of spans and blocks handed out
  size_t large = 0;     // of these, in blocks of whole trackers
  size_t dirty = 0;     // bytes free that still hold pages
  size_t released = 0;  // bytes given back to the system so far
  size_t large_requested = 0;
  size_t large_allocations = 0;
  size_t large_frees = 0;
  size_t used_peak = 0;
  size_t dirty_peak = 0;
  size_t held_peak = 0;  // of used and dirty together
  size_t owed = 0;
};

template <Os System>
class PageHeap {
 public:
  constexpr PageHeap() = default;
  constexpr PageHeap(PageMap& map, Metadata<System>& metadata)
      : map_(&map), metadata_(&metadata), free_(map) {}
  void Bind(PageMap& map, Metadata<System>& metadata) noexcept {
    map_ = &map;
    metadata_ = &metadata;
    free_.Bind(map);
  }

  // 1 <= granules <= Tracker::kGranules. p is nullptr when the system refuses.
  Memory AllocateSpan(size_t granules, Fill fill = Fill::kDense) noexcept;
  // `dirty` has a bit for each of the first 64 granules; those without one read as zero.
  void FreeSpan(void* p, size_t granules, uint64_t dirty) noexcept;

  // A block of whole trackers for `bytes`, aligned to `alignment` (a power of two), with address
  // space for `reserve` >= bytes to grow into.
  Memory AllocateLarge(size_t bytes, size_t alignment, size_t reserve) noexcept;
  // With `at_once`, its pages go to the system before the memory is free again.
  void FreeLarge(void* p, bool at_once = false) noexcept;
  // Changes the size without moving; false if the space behind is taken.
  bool ResizeLarge(void* p, size_t bytes) noexcept;
  // Moves the pages of `from` to the start of `to`, which is at least as large; returns how many
  // bytes of them were moved.
  size_t MoveLarge(void* from, void* to) noexcept;
  // The bytes of the block that begins at p, rounded to OS pages; 0 if none begins there.
  size_t LargeSize(const void* p) const noexcept;
  // What lies at p, an address that begins no object: for the sentence about it.
  enum class Place { kOutside, kFree, kInside };
  Place PlaceOf(const void* p) noexcept;

  // Ends the window of the low-water mark: what lay idle through it is owed to the system.
  void EndWindow() noexcept;
  // What lay idle through this window so far.
  size_t IdleBytes() noexcept {
    Locked hold(mutex_);
    return low_.lowest() * kGranule;
  }
  // To be called before a part of a span, at p, goes back to the system.
  void SplitHugeAt(void* p) noexcept;
  // Gives back up to `bytes` of what is owed; returns how much it was.
  size_t PayDebt(size_t bytes) noexcept;
  // Gives back up to `bytes` of dirty memory, owed or not.
  size_t Release(size_t bytes) noexcept;
  // All of it.
  size_t ReleaseAll() noexcept;
  // What huge pages filled in beside the spans in use is dirty from now on.
  void CountFilled() noexcept {
    Locked hold(mutex_);
    CountAllFilled();
  }

  // Which memory may be backed with huge pages, of what is reserved from now on.
  enum class Huge : uint8_t { kLargeHeaps, kAlways, kNever };
  void SetHuge(Huge huge) { huge_.store(huge, std::memory_order_relaxed); }
  // A heap that grows through address space for huge pages: how many trackers it took there so far.
  uint32_t fresh_trackers() const { return fresh_.load(std::memory_order_relaxed); }
  // Faults in the tracker that would be taken next, or the one after it, if it is untouched; false
  // if there is nothing to prepare. One caller at a time.
  bool PrepareAhead() noexcept;
  // Whether huge pages cost so much of late that fresh memory is of small ones.
  bool HugeIsSlow() const { return huge_backoff_.load(std::memory_order_relaxed) != 0; }

  // Huge pages only while less than `bytes` are mapped: what is given back of one in part still
  // counts for the memory cgroup, until the kernel splits it.
  void SetHugeBelow(size_t bytes) { huge_refused_.store(~bytes, std::memory_order_relaxed); }
  // Refuses what would bring the bytes in use above `bytes`.
  void SetMost(size_t bytes) { most_less_.store(~(bytes / kGranule), std::memory_order_relaxed); }

  size_t dirty_bytes() const { return dirty_.load(std::memory_order_relaxed) * kGranule; }
  size_t used_bytes() const { return used_.load(std::memory_order_relaxed) * kGranule; }
  // Bytes taken so far that had held no pages: what the heap has grown by, whatever went back
  // since.
  size_t grown_bytes() const { return grown_.load(std::memory_order_relaxed) * kGranule; }
  size_t owed_bytes() const { return owed_.load(std::memory_order_relaxed) * kGranule; }
  PageStats Stats() const noexcept;
  LargeCounts CountsOf(size_t group) noexcept {
    Locked hold(mutex_);
    return groups_[group];
  }
  // Gives address space back that holds nothing, neither objects nor pages, in whole chunks;
  // returns how many bytes of it.
  size_t UnmapFree() noexcept;

  // Gives back what the map from addresses to slabs needs for memory that is free; returns how many
  // bytes. Worth it once the heap has shrunk by much.
  size_t ReleaseMap() noexcept;

  // Peaks count anew from what is now.
  void ResetPeaks() noexcept;
  size_t OsPage() const noexcept { return page_; }
  void Init() noexcept { page_ = System::PageSize(); }
  Mutex<System>& mutex() { return mutex_; }
  // In the child of a fork: what other threads had under way is lost.
  void ForgetBusy() noexcept { busy_ = 0; }
  void Verify() noexcept;

 private:
  friend struct Layout;
  using State = Tracker::State;
  struct Chunk {
    Chunk* next;
    char* base;
    size_t trackers;
    Tracker* rows;  // of the trackers
    size_t room;    // how many rows there are
  };
  // The least to reserve; a system may say less.
  static constexpr size_t FirstChunk() {
    if constexpr (requires { System::kFirstChunk; }) {
      return System::kFirstChunk;
    } else {
      return 64 * kMiB;
    }
  }
  static constexpr size_t kMaxChunk = kGiB;
  // Free trackers that go to the system in one call: no more are out of reach at a time.
  static constexpr size_t kReleasedTogether = 4;
  // Each tracker whose pages came from elsewhere is a mapping of its own to the kernel, which
  // limits their number: 65,530 by default.
  static constexpr size_t kMostMoved = 8192;
  // Likewise each border between trackers that were split and those that were not.
  static constexpr int kMostSplitBorders = 16384;
  // Heaps from this size on get address space that the kernel may back with huge pages.
  static constexpr size_t kHugeFrom = 128 * kMiB;
  // CPU time of one huge page from which on small ones are the better: it takes 0.1 to 0.4 ms, and
  // 4 to 5 where a virtual machine's host has taken the memory back.
  static constexpr uint64_t kSlowHugeNanos = 1000000;
  // How many trackers the heap grows by before another huge page is tried, at first and at most.
  static constexpr uint32_t kFirstBackoff = 16, kMostBackoff = 1024;
  // From this size on the helper prepares two trackers ahead of growth, before that one.
  static constexpr size_t kTwoAheadFrom = 256 * kMiB;

  bool AllowsHuge(size_t mapped, Fill fill) const noexcept {
    const Huge huge = huge_.load(std::memory_order_relaxed);
    return huge == Huge::kAlways ||
           (huge == Huge::kLargeHeaps && mapped >= kHugeFrom && fill == Fill::kDense &&
            mapped < ~huge_refused_.load(std::memory_order_relaxed));
  }
  // Called with the lock.
  bool Exceeds(size_t granules_more) const noexcept {
    return used_.load(std::memory_order_relaxed) + granules_more >
           ~most_less_.load(std::memory_order_relaxed);
  }
  void NoteTaken(Tracker* t, bool for_spans) noexcept;
  void NoteFilled(Tracker* t) noexcept;
  void CountFilled(Tracker* t) noexcept;
  void CountAllFilled() noexcept;
  Tracker* TakeUntouched() noexcept;
  bool Populate(Tracker* t) noexcept;
  void NotePopulated(uint64_t nanos) noexcept;
  void KeepFreeSmall() noexcept;
  // Called with the lock when memory is refused: whether some free memory is only out for a moment,
  // on its way through the system; if so, lets it come back. Then it is worth another try.
  bool AwaitBusy() noexcept {
    if (busy_ == 0) return false;
    mutex_.Unlock();
    Pause();
    mutex_.Lock();
    return true;
  }
  SpanLists& SpansLike(const Tracker* t) { return spans_[t->huge_allowed ? 1 : 0]; }
  Tracker* TrackerFor(size_t granules, Fill fill) noexcept;
  Tracker* FindSpan(size_t granules, Fill fill) noexcept;
  Tracker* TakeFree(size_t count, size_t alignment, Fill fill) noexcept;
  Tracker* TakeTrackers(size_t count, size_t alignment, Fill fill) noexcept;
  static bool LeavesRoom() noexcept;
  bool Grow(size_t trackers, Fill fill) noexcept;
  bool AddChunk(char* base, size_t bytes, Fill fill) noexcept;
  void BecomeFree(Tracker* t, size_t count) noexcept;
  static void Raise(std::atomic<size_t>& peak, size_t level) noexcept;
  void Account(size_t used_more, size_t dirty_less) noexcept;
  void Unaccount(size_t used_less, size_t dirty_more) noexcept;
  // Trackers of a new block without pages, and free ones elsewhere whose pages may move there.
  struct Moves {
    static constexpr size_t kMost = 16;
    Tracker* to[kMost];
    Tracker* from[kMost];
    size_t count = 0;
  };
  Memory LayBlock(size_t bytes, size_t alignment, size_t reserve, Moves* moves) noexcept;
  void PlanMoves(Tracker* head, Moves* moves) noexcept;
  bool MovePagesIn(Tracker* from, Tracker* to) noexcept;
  bool ExtendBlock(Tracker* head, size_t trackers) noexcept;
  void TrimBlock(Tracker* head, size_t trackers) noexcept;
  void SetRequested(Tracker* head, size_t bytes) noexcept;
  void UseBlock(Tracker* head, size_t from, size_t to, Memory* memory) noexcept;
  void UnuseBlock(Tracker* head, size_t from, size_t to, bool dirty) noexcept;
  size_t ReleaseFree(size_t bytes) noexcept;
  static void ReleaseOrZero(char* p, size_t bytes) noexcept;
  size_t ReleaseOneRun() noexcept;
  size_t ReleaseTail(Tracker* t, BitRun run, bool splits) noexcept;
  bool IsIdle(const Chunk& chunk) const noexcept;
  Chunk* TakeIdle() noexcept;
  Chunk* ChunkFor(size_t trackers) noexcept;
  Tracker* NextSharedTracker() noexcept;
  void ReleaseBehind(Tracker* head) noexcept;
  void AwaitTail(const Tracker* head) noexcept;
  void ReleaseUnlocked(Tracker* t, BitRun run, bool splits) noexcept;
  static void Split(Tracker* t, void* p) noexcept;
  bool NoteSplit(Tracker* t) noexcept;
  bool NoteWhole(Tracker* t) noexcept;
  int SplitNeighbours(const Tracker* t) const noexcept;

  PageMap* map_ = nullptr;
  Metadata<System>* metadata_ = nullptr;
  Mutex<System> mutex_;
  FreeRuns free_;
  size_t page_ = 0;  // bytes of an OS page
  Chunk* chunks_ = nullptr;
  Chunk* vacant_ = nullptr;        // descriptions of chunks that were unmapped
  Chunk* cursor_chunk_ = nullptr;  // where the search for dirty spans goes on
  size_t cursor_ = 0;
  LowWater low_;
  // In granules; written under the lock, read without.
  std::atomic<size_t> used_{0}, dirty_{0}, owed_{0}, large_{0}, mapped_{0};
  std::atomic<size_t> released_{0}, grown_{0}, used_peak_{0}, dirty_peak_{0}, held_peak_{0};
  std::atomic<size_t> large_requested_{0};  // in bytes
  std::atomic<size_t> large_allocations_{0}, large_frees_{0};
  LargeCounts groups_[kLargeGroups] = {};
  std::atomic<uint32_t> fresh_{0};
  std::atomic<uint32_t> huge_backoff_{0};  // trackers; 0 while huge pages are quick
  uint32_t huge_retry_at_ = 0;             // fresh_ of the next try
  uint64_t huge_nanos_ = 0;                // what one costs of late
  std::atomic<Huge> huge_{Huge::kLargeHeaps};
  // Granules that may be in use, all bits turned: the page heap is valid when it is zero.
  std::atomic<size_t> most_less_{0};
  size_t busy_ = 0;  // trackers that are free but for a system call under way
  size_t moved_trackers_ = 0;
  int split_borders_ = 0;
  static constexpr size_t kMostFilled = 16;
  Tracker* filled_[kMostFilled] = {};  // trackers that were taken untouched in this window
  uint32_t filled_at_ = 0;
  std::atomic<size_t> huge_refused_{0};  // the complement of SetHugeBelow: zero is no limit
  SpanLists spans_[2];  // without and with huge pages; last, as few of their pages are touched
};

}  // namespace granary

#include "pages/ahead_impl.h"
#include "pages/filled_impl.h"
#include "pages/large_impl.h"
#include "pages/pages_impl.h"
#include "pages/release_impl.h"
#include "pages/split_impl.h"
#include "pages/unmap_impl.h"
