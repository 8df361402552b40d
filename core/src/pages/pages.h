// The page heap: spans of granules inside regions, blocks of whole regions, and the dirty free
// memory. Thread-safe. One lock, which is released for all system calls but those that reserve
// address space or map metadata.
#pragma once

#include <cstddef>

#include "os/mutex.h"
#include "os/os.h"
#include "pages/address_space.h"
#include "pages/blocks.h"
#include "pages/density.h"
#include "pages/filled_regions.h"
#include "pages/growth_ahead.h"
#include "pages/huge_pages.h"
#include "pages/metadata.h"
#include "pages/page_core.h"
#include "pages/page_figures.h"
#include "pages/page_map.h"
#include "pages/page_moves.h"
#include "pages/purge.h"
#include "pages/spans.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class PageHeap {
 public:
  using Huge = HugePolicy;
  using Chunk = typename AddressSpace<System>::Chunk;

  constexpr PageHeap() = default;
  PageHeap(PageMap& map, Metadata<System>& metadata) { Bind(map, metadata); }
  void Bind(PageMap& map, Metadata<System>& metadata) noexcept {
    core_.map = &map;
    core_.metadata = &metadata;
    core_.free.Bind(map);
    transit_.Bind(core_);
    huge_.Bind(core_);
    filled_.Bind(core_);
    space_.Bind(core_, transit_, huge_);
    spans_.Bind(core_, transit_, huge_, filled_, space_);
    moves_.Bind(core_, transit_, filled_);
    blocks_.Bind(core_, transit_, filled_, space_, moves_);
    ahead_.Bind(core_, transit_, huge_, space_);
    purger_.Bind(core_, transit_, huge_, space_, spans_, blocks_);
  }
  void Init() noexcept { core_.os_page = System::PageSize(); }
  size_t OsPage() const noexcept { return core_.os_page; }
  Mutex<System>& mutex() { return core_.mutex; }

  // ---- spans (spans.h) ----
  Memory AllocateSpan(size_t granules, Density density = Density::kDense) noexcept {
    const Memory memory = spans_.Allocate(granules, density);
    if (huge_.TakeMeasure()) [[unlikely]]
      ahead_.Measure(memory.p);
    return memory;
  }
  void FreeSpan(void* p, size_t granules, uint64_t dirty) noexcept {
    spans_.Free(p, granules, dirty);
  }

  // ---- blocks (blocks.h) ----
  Memory AllocateLarge(size_t bytes, size_t alignment, size_t reserve) noexcept {
    if (bytes > kMaxRequest - kTrackerBytes || alignment > kMaxRequest / 2) return {};
    if (bytes == 0) bytes = 1;
    return blocks_.Allocate(bytes, alignment, reserve < bytes ? bytes : reserve);
  }
  void FreeLarge(void* p, bool at_once = false) noexcept { blocks_.Free(p, at_once); }
  void FreePurgedLarge(void* p) noexcept { blocks_.FreePurged(p); }
  // For a block whose pages MoveLarge has moved, all of them.
  void FreeMovedLarge(void* p) noexcept { blocks_.FreeMoved(p); }
  bool ResizeLarge(void* p, size_t bytes) noexcept {
    return bytes <= kMaxRequest - kTrackerBytes && blocks_.Resize(p, bytes);
  }
  // Moves the pages of `from` to the start of `to`, which is at least as large. If the result says
  // `lost`, CutLarge must follow.
  MoveResult MoveLarge(void* from, void* to) noexcept {
    return System::MovePages(from, LargeSize(from), to);
  }
  // Ends the block before the lost region; false if that is the first one: then the block must
  // never be accessed or freed.
  bool CutLarge(void* p, size_t lost_at) noexcept { return blocks_.CutBefore(p, lost_at); }
  size_t LargeSize(const void* p) const noexcept { return blocks_.SizeOf(p); }

  // The tracker of the block that begins at p, or nullptr.
  Tracker* BlockAt(const void* p) const noexcept {
    return LargeSize(p) == 0 ? nullptr : core_.map->TrackerAt(p);
  }

  // ---- guards: the owner of memory in a guarded region unguards what it uses ----
  // Call it before the first allocation.
  void SetGuards(bool on) { core_.guards = on; }
  bool IsGuarded(const void* p) const noexcept { return core_.map->TrackerAt(p)->guarded; }
  void Unguard(void* p, size_t bytes) noexcept {
    if (IsGuarded(p)) System::Unguard(p, bytes);
  }
  // Called before memory is freed: purges and guards it. False if nothing changed.
  bool Guard(void* p, size_t bytes) noexcept { return IsGuarded(p) && System::Guard(p, bytes); }

  // What an address is that begins no object, for a misuse report.
  enum class Place { kOutside, kFree, kInside };
  Place PlaceOf(const void* p) noexcept {
    Locked hold(core_.mutex);
    const Tracker* const t = core_.map->TrackerAt(p);
    if (t == nullptr) return Place::kOutside;
    const size_t granule = static_cast<size_t>(static_cast<const char*>(p) - t->base) / kGranule;
    return AllSet(t->used, granule, 1) ? Place::kInside : Place::kFree;
  }

  // ---- purging (purge.h) ----
  // Ends the interval of the low-water mark: memory that stayed dirty through it becomes due.
  void EndInterval() noexcept {
    Locked hold(core_.mutex);
    filled_.CountAllDirty();
    core_.figures.EndInterval();
  }
  // Memory that stayed dirty through this interval so far.
  size_t IdleBytes() noexcept {
    Locked hold(core_.mutex);
    return core_.figures.idle_bytes();
  }
  // Must be called before a part of a span, at p, is purged.
  void SplitHugeAt(void* p) noexcept { huge_.SplitAt(p); }
  // Purges up to `bytes` of the due memory; returns the number of bytes.
  size_t PurgeDue(size_t bytes) noexcept {
    const size_t due = due_bytes();
    const size_t purged = PurgeDirty(bytes < due ? bytes : due);
    const size_t left = due > purged && purged > 0 ? due - purged : 0;
    core_.figures.SetDue(left / kGranule);
    return purged;
  }
  // Purges up to `bytes` of dirty memory, due or not.
  size_t PurgeDirty(size_t bytes) noexcept { return purger_.PurgeDirty(bytes); }
  // Purges all dirty memory.
  size_t PurgeAll() noexcept {
    CountFilled();
    return PurgeDirty(~size_t{0} / 2);
  }
  // Marks what huge pages made resident beside used spans as dirty.
  void CountFilled() noexcept {
    Locked hold(core_.mutex);
    filled_.CountAllDirty();
  }
  // Unmaps chunks without objects and pages; returns the number of bytes.
  size_t UnmapFree() noexcept {
    return space_.UnmapIdle([this](const Tracker* t) { moves_.Forget(t); });
  }
  // Purges the page map of free memory; returns the number of bytes. Worthwhile after the heap
  // shrank by much.
  size_t PurgeMap() noexcept { return purger_.PurgeMap(); }

  // ---- huge pages (huge_pages.h, growth_ahead.h) ----
  // Sets which memory may have huge pages, of what is reserved from now on.
  void SetHuge(Huge huge) { huge_.SetPolicy(huge); }
  void SetHugeBelow(size_t bytes) { huge_.SetBelow(bytes); }
  uint32_t fresh_trackers() const { return huge_.fresh(); }
  bool PrepareAhead() noexcept { return ahead_.Prepare(); }
  bool HugeIsSlow() const { return huge_.IsSlow(); }

  // ---- limits and figures (page_figures.h) ----
  void SetMost(size_t bytes) { core_.figures.SetMost(bytes); }
  size_t dirty_bytes() const { return core_.figures.dirty_bytes(); }
  size_t used_bytes() const { return core_.figures.used_bytes(); }
  // Bytes allocated from clean memory so far: the growth of the heap, without what was purged.
  size_t grown_bytes() const { return core_.figures.grown_bytes(); }
  size_t due_bytes() const { return core_.figures.due_bytes(); }
  PageStats Stats() const noexcept { return core_.figures.Stats(); }
  LargeCounts CountsOf(size_t group) noexcept {
    Locked hold(core_.mutex);
    return core_.figures.CountsOf(group);
  }
  // Restarts the peaks from the present level.
  void ResetPeaks() noexcept {
    Locked hold(core_.mutex);
    core_.figures.ResetPeaks();
  }

  // In the child of a fork: memory that other threads had in transit is lost.
  void ForgetBusy() noexcept {
    transit_.Forget();
    space_.ForgetGrowth();
  }

  void Verify() noexcept {
    Locked hold(core_.mutex);
    core_.free.Verify();
    size_t used = 0, dirty = 0;
    int borders = 0;
    space_.ForEach([&](const Tracker* t) {
      t->Verify();
      if (t->state == Tracker::State::kSpans) GRANARY_CHECK(t->used_count > 0);
      if (t->split) borders += 2 - huge_.SplitNeighbours(t);
      used += t->used_count;
      dirty += t->dirty_count;
    });
    GRANARY_CHECK(borders == huge_.split_borders());
    GRANARY_CHECK(used == core_.figures.used());
    GRANARY_CHECK(dirty == core_.figures.dirty());
  }

 private:
  friend struct DescriptorRows;

  PageCore<System> core_;
  Transit<System> transit_;
  HugePages<System> huge_;
  FilledRegions<System> filled_;
  AddressSpace<System> space_;
  PageMoves<System> moves_;
  Blocks<System> blocks_;
  GrowthAhead<System> ahead_;
  Purger<System> purger_;
  Spans<System> spans_;  // last, because few of its pages are accessed
};

}  // namespace granary
