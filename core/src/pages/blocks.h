// Blocks: allocations of one or more whole regions. A block is resized in place if the regions
// after it are free; otherwise its pages are moved.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "pages/address_space.h"
#include "pages/filled_regions.h"
#include "pages/page_core.h"
#include "pages/page_moves.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class Blocks {
 public:
  using State = Tracker::State;

  void Bind(PageCore<System>& core, Transit<System>& transit, FilledRegions<System>& filled,
            AddressSpace<System>& space, PageMoves<System>& moves) {
    core_ = &core;
    transit_ = &transit;
    filled_ = &filled;
    space_ = &space;
    moves_ = &moves;
  }

  // A block of `bytes`, aligned to `alignment` (a power of two), with address space for growth up
  // to `reserve` >= bytes.
  Memory Allocate(size_t bytes, size_t alignment, size_t reserve) noexcept {
    for (;;) {
      typename PageMoves<System>::Plan plan;
      core_->mutex.Lock();
      Memory memory = Lay(bytes, alignment, reserve, &plan);
      core_->mutex.Unlock();
      if (memory.p == nullptr) return memory;
      PurgeBehind(core_->map->TrackerAt(memory.p));
      bool lost = false;
      const size_t moved = moves_->Run(plan, &lost);
      if (moved > 0) memory.dirty = ~uint64_t{0};
      if (!lost) return memory;
      // Retries with another block, and without moving pages.
      char* const p = static_cast<char*>(memory.p);
      if (CutBefore(p, static_cast<size_t>(plan.to[moved]->base - p))) Free(p, false);
    }
  }

  // With `at_once`, purges the pages before the memory becomes free.
  void Free(void* p, bool at_once) noexcept {
    Tracker* const head = core_->map->TrackerAt(p);
    const size_t granules = DivideUp(head->bytes, kGranule);
    const bool purged = at_once && System::Purge(p, granules * kGranule);
    if (purged) core_->figures.Purged(granules);
    Finish(head, purged);
  }
  // The same for a block whose pages its owner has purged,
  void FreePurged(void* p) noexcept {
    Tracker* const head = core_->map->TrackerAt(p);
    core_->figures.Purged(DivideUp(head->bytes, kGranule));
    FreeMoved(p);
  }
  // or has moved elsewhere.
  void FreeMoved(void* p) noexcept { Finish(core_->map->TrackerAt(p), true); }

  // Changes the size in place; false if the space after the block is in use.
  bool Resize(void* p, size_t bytes) noexcept {
    Tracker* const head = core_->map->TrackerAt(p);
    const size_t requested = bytes, old_bytes = head->bytes;
    bytes = RoundUp(bytes, core_->os_page);
    typename PageMoves<System>::Plan plan;
    {
      Locked hold(core_->mutex);
      AwaitTail(head);
      const size_t before = DivideUp(head->bytes, kGranule);
      const size_t after = DivideUp(bytes, kGranule);
      if (bytes > head->bytes) {
        if (core_->figures.Exceeds(after - before)) return false;
        if (!Extend(head, DivideUp(bytes, kTrackerBytes))) return false;
      }
      if (after > before) {
        const size_t entered = DivideUp(before, Tracker::kGranules);
        moves_->Prepare(head, entered, WholeRegions(bytes), &plan);
        NoteTail(head, after);
        Use(head, before, after);
      }
      if (after < before) Unuse(head, after, before, true);
      const bool shrinks = bytes < head->bytes;
      core_->figures.ResizeBlock(head->bytes, bytes);
      head->bytes = bytes;
      SetRequested(head, requested);
      if (shrinks) Trim(head, DivideUp(bytes, kTrackerBytes));
    }
    PurgeBehind(head);  // a block that grew may use only a part of a dirty region
    bool lost = false;
    const size_t moved = moves_->Run(plan, &lost);
    if (!lost) return true;
    CutBefore(p, static_cast<size_t>(plan.to[moved]->base - head->base));
    Resize(p, old_bytes);
    return false;
  }

  // Ends the block at p before `offset`, because the heap lost the region there. False if that is
  // the first region: then the block must never be accessed or freed.
  GRANARY_COLD bool CutBefore(void* p, size_t offset) noexcept {
    Locked hold(core_->mutex);
    Tracker* const head = core_->map->TrackerAt(p);
    AwaitTail(head);
    const size_t kept = offset == 0 ? 1 : offset / kTrackerBytes;
    const size_t end = kept * Tracker::kGranules, granules = DivideUp(head->bytes, kGranule);
    if (granules > end) {
      Unuse(head, end, granules, true);
      core_->figures.ResizeBlock(head->bytes, kept * kTrackerBytes);
      head->bytes = kept * kTrackerBytes;
      SetRequested(head, head->bytes);
    }
    Tracker* const lost = offset == 0 ? head : core_->At(head, kept);
    core_->figures.TakeDirty(lost->ClearDirty());
    lost->filled = false;
    const size_t count = head->trackers;
    head->trackers = static_cast<uint32_t>(kept);
    if (lost != head) lost->state = State::kAbandoned;
    const size_t next = lost != head ? kept + 1 : kept;
    if (next < count) core_->free.Add(core_->At(head, next), count - next);
    return lost != head;
  }

  // The size of the block that begins at p, rounded to OS pages; 0 if none begins there.
  size_t SizeOf(const void* p) const noexcept {
    const Tracker* const t = core_->map->TrackerAt(p);
    return t != nullptr && t->state == State::kLargeHead && t->base == p ? t->bytes : 0;
  }

  // Purges the first dirty run of t, which is after the end of a block. Called with the lock, and
  // releases it: the owner may free or resize the block at the same time, and waits (AwaitTail).
  // Returns the number of bytes.
  GRANARY_COLD size_t PurgeTail(Tracker* t, HugePages<System>* huge) noexcept {
    const BitRun run = NextRun(t->dirty, 0, Tracker::kGranules, true);
    const bool splits = huge != nullptr && huge->NoteSplit(t);
    t->UseDirty(run.first, run.count);
    core_->figures.Use(run.count, run.count);
    ++t->leaving;
    {
      typename Transit<System>::Unlocked out(*transit_);
      char* const p = t->Address(run.first);
      if (splits) huge->Split(t, p);
      PurgeOrClear<System>(p, run.count * kGranule);
    }
    --t->leaving;
    core_->figures.Purged(run.count);
    t->Unuse(run.first, run.count);
    core_->figures.Unuse(run.count, 0);
    return run.count * kGranule;
  }

 private:
  // Calls visit(tracker, first, count) for each piece of the block's granules [from, to).
  template <class Visit>
  void ForPieces(Tracker* head, size_t from, size_t to, Visit&& visit) {
    for (size_t g = from; g < to;) {
      const size_t first = g % Tracker::kGranules;
      const size_t rest = Tracker::kGranules - first;
      const size_t count = rest < to - g ? rest : to - g;
      visit(core_->At(head, g / Tracker::kGranules), first, count);
      g += count;
    }
  }

  // Marks the granules [from, to) of the block as used; returns how many of them were dirty.
  size_t Use(Tracker* head, size_t from, size_t to) noexcept {
    size_t dirty = 0;
    ForPieces(head, from, to, [&dirty](Tracker* t, size_t first, size_t count) {
      dirty += t->UseDirty(first, count);
    });
    core_->figures.UseLarge(to - from);
    core_->figures.Use(to - from, dirty);
    return dirty;
  }

  // Called before the block's granules up to `end` are used.
  void NoteTail(Tracker* head, size_t end) noexcept {
    if (end % Tracker::kGranules == 0) return;
    Tracker* const last = core_->At(head, end / Tracker::kGranules);
    if (last->used_count == 0) filled_->Note(last);
  }

  // The regions that a block of `bytes` may keep resident as a whole. A small part of the last one
  // stays dirty until the end of the interval: a block that grows enters it, and if the block is
  // freed earlier, the next one uses it without a fault.
  static size_t WholeRegions(size_t bytes) {
    const bool dense = DensityOf(bytes) == Density::kDense;
    return dense ? DivideUp(bytes, kTrackerBytes) : bytes / kTrackerBytes;
  }

  void Unuse(Tracker* head, size_t from, size_t to, bool dirty) noexcept {
    ForPieces(head, from, to, [dirty](Tracker* t, size_t first, size_t count) {
      t->Unuse(first, count);
      if (dirty) t->MarkDirty(first, count);
    });
    core_->figures.UnuseLarge(to - from);
    core_->figures.Unuse(to - from, dirty ? to - from : 0);
  }

  void SetRequested(Tracker* head, size_t bytes) noexcept {
    core_->figures.RequestLarge(head->requested, bytes);
    head->requested = bytes;
  }

  Memory Lay(size_t bytes, size_t alignment, size_t reserve,
             typename PageMoves<System>::Plan* plan) noexcept {
    if (core_->figures.Exceeds(DivideUp(bytes, kGranule))) return {};
    size_t count = DivideUp(reserve, kTrackerBytes);
    const Density density = DensityOf(bytes);
    Tracker* head = space_->Take(count, alignment, density);
    if (head == nullptr) {
      count = DivideUp(bytes, kTrackerBytes);
      do head = space_->Take(count, alignment, density);
      while (head == nullptr && transit_->Await());
    }
    if (head == nullptr) return {};
    for (size_t i = 0; i < count; ++i) core_->At(head, i)->BeginUse(State::kLargeBody);
    head->state = State::kLargeHead;
    head->trackers = static_cast<uint32_t>(count);
    head->bytes = RoundUp(bytes, core_->os_page);
    SetRequested(head, bytes);
    core_->figures.MakeBlock(head->bytes);
    moves_->Prepare(head, 0, head->bytes / kTrackerBytes, plan);
    Memory memory{head->base};
    const size_t granules = DivideUp(head->bytes, kGranule);
    NoteTail(head, granules);
    if (Use(head, 0, granules) > 0) memory.dirty = ~uint64_t{0};
    return memory;
  }

  void Finish(Tracker* head, bool clean) noexcept {
    Locked hold(core_->mutex);
    core_->free.Add(head, End(head, !clean));
  }

  // Called with the lock, when the block ends. Returns its number of trackers.
  size_t End(Tracker* head, bool dirty) noexcept {
    AwaitTail(head);
    filled_->CountDirty(core_->At(head, (head->bytes - 1) / kTrackerBytes));
    Unuse(head, 0, DivideUp(head->bytes, kGranule), dirty);
    core_->figures.DropBlock(head->bytes);
    head->bytes = 0;
    SetRequested(head, 0);
    return head->trackers;
  }

  bool Extend(Tracker* head, size_t trackers) noexcept {
    if (trackers <= head->trackers) return true;
    const size_t more = trackers - head->trackers;
    const char* const end = head->base + head->trackers * kTrackerBytes;
    if (!core_->free.TakeAt(core_->map->TrackerAt(end), more)) {
      space_->CommitAfter(end, more);
      if (!core_->free.TakeAt(core_->map->TrackerAt(end), more)) return false;
    }
    Tracker* const next = core_->map->TrackerAt(end);
    for (size_t i = 0; i < more; ++i) core_->At(next, i)->BeginUse(State::kLargeBody);
    head->trackers = static_cast<uint32_t>(trackers);
    return true;
  }

  void Trim(Tracker* head, size_t trackers) noexcept {
    if (trackers == head->trackers) return;
    const size_t count = head->trackers - trackers;
    head->trackers = static_cast<uint32_t>(trackers);
    core_->free.Add(core_->At(head, trackers), count);
  }

  // Purges dirty memory after the end of a block, which no other block can use.
  void PurgeBehind(Tracker* head) noexcept {
    Locked hold(core_->mutex);
    for (size_t i = WholeRegions(head->bytes); i < head->trackers; ++i) {
      Tracker* const t = core_->At(head, i);
      // This is in the program's own call, and the region becomes free with the block: a split
      // would cost more than it saves.
      while (t->dirty_count > 0) PurgeTail(t, nullptr);
    }
  }

  // Called with the lock, by the owner of the block, before the end of the block moves.
  void AwaitTail(const Tracker* head) noexcept {
    const size_t last = (head->bytes - 1) / kTrackerBytes;
    Tracker* const t = core_->At(head, last);
    while (t->leaving > 0 && transit_->Await()) continue;
    if (t->leaving == 0) return;
    // The purging thread does not exist in this child of a fork: the memory stays dirty.
    t->leaving = 0;
    const size_t end = DivideUp(head->bytes - last * kTrackerBytes, kGranule);
    for (BitRun run; (run = NextRun(t->used, end, Tracker::kGranules, true)).count > 0;) {
      t->Unuse(run.first, run.count);
      t->MarkDirty(run.first, run.count);
      core_->figures.Unuse(run.count, run.count);
    }
  }

  PageCore<System>* core_ = nullptr;
  Transit<System>* transit_ = nullptr;
  FilledRegions<System>* filled_ = nullptr;
  AddressSpace<System>* space_ = nullptr;
  PageMoves<System>* moves_ = nullptr;
};

}  // namespace granary
