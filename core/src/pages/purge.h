// Purges free memory: free regions first, a few at a time, then dirty runs beside used memory, by
// address and in a circle. No other thread waits for the system during this time (transit.h).
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "pages/address_space.h"
#include "pages/blocks.h"
#include "pages/huge_pages.h"
#include "pages/page_core.h"
#include "pages/spans.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class Purger {
 public:
  void Bind(PageCore<System>& core, Transit<System>& transit, HugePages<System>& huge,
            AddressSpace<System>& space, Spans<System>& spans, Blocks<System>& blocks) {
    core_ = &core;
    transit_ = &transit;
    huge_ = &huge;
    space_ = &space;
    spans_ = &spans;
    blocks_ = &blocks;
  }

  // Purges up to `bytes` of dirty memory; returns the number of purged bytes.
  size_t PurgeDirty(size_t bytes) noexcept {
    size_t done = 0;
    while (done < bytes) {
      size_t step = PurgeFreeRegions(bytes - done);
      if (step == 0) step = PurgeSharedRun();
      if (step == 0) break;
      done += step;
    }
    return done;
  }

  // Purges the part of the page map that describes free regions; returns the number of purged
  // bytes. A few regions at a time, so that a thread that needs memory finds some.
  GRANARY_COLD size_t PurgeMap() noexcept {
    constexpr size_t kAtATime = 64;
    size_t done = 0, count = 0;
    Locked hold(core_->mutex);
    for (const char* from = nullptr;
         Tracker* const first = core_->free.TakeBeyond(from, kAtATime, &count);) {
      char* const base = first->base;
      transit_->Take(first, count);
      {
        typename Transit<System>::Unlocked out(*transit_);
        done += core_->map->template PurgeRows<System>(base, count * kTrackerBytes);
      }
      transit_->Return(first, count);
      from = base + count * kTrackerBytes;
    }
    return done;
  }

 private:
  // The number of free regions that one call purges, and that are unavailable at a time.
  static constexpr size_t kTogether = 4;
  // The number of trackers that are checked before a waiting thread can have the lock.
  static constexpr size_t kTrackersPerTurn = 4096;

  // Purges a few adjacent dirty free regions. Returns 0 if there is none.
  GRANARY_COLD size_t PurgeFreeRegions(size_t bytes) noexcept {
    size_t most = DivideUp(bytes, kTrackerBytes);
    if (most > kTogether) most = kTogether;
    Locked hold(core_->mutex);
    size_t count = 0;
    Tracker* const first = core_->free.TakeDirty(most, &count);
    if (first == nullptr) return 0;
    transit_->Take(first, count);
    size_t dirty = 0;
    bool whole[kTogether];
    for (size_t i = 0; i < count; ++i) {
      Tracker* const t = core_->At(first, i);
      t->prepared = false;
      dirty += t->ClearDirty();
      whole[i] = !huge_->IsSlow() && huge_->NoteWhole(t);
    }
    core_->figures.TakeDirty(dirty);
    {
      typename Transit<System>::Unlocked out(*transit_);
      PurgeOrClear<System>(first->base, count * kTrackerBytes);
      for (size_t i = 0; i < count; ++i) {
        if (whole[i]) System::AllowHuge(first->base + i * kTrackerBytes, kTrackerBytes, true);
      }
    }
    core_->figures.Purged(count * Tracker::kGranules);
    transit_->Return(first, count);
    return dirty * kGranule;
  }

  // Purges one dirty run between spans, or after the end of a block. Returns 0 if there is none.
  GRANARY_COLD size_t PurgeSharedRun() noexcept {
    Locked hold(core_->mutex);
    for (size_t left = space_->RoundOfShared(); core_->figures.dirty() > 0;) {
      const size_t turn = left < kTrackersPerTurn ? left : kTrackersPerTurn;
      if (Tracker* const t = space_->NextShared(turn); t != nullptr) {
        return t->state == Tracker::State::kSpans ? spans_->PurgeRun(t)
                                                  : blocks_->PurgeTail(t, huge_);
      }
      left -= turn;
      if (left == 0) return 0;
      core_->mutex.Unlock();
      core_->mutex.Lock();
    }
    return 0;
  }

  PageCore<System>* core_ = nullptr;
  Transit<System>* transit_ = nullptr;
  HugePages<System>* huge_ = nullptr;
  AddressSpace<System>* space_ = nullptr;
  Spans<System>* spans_ = nullptr;
  Blocks<System>* blocks_ = nullptr;
};

}  // namespace granary
