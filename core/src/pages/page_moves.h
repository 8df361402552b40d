// Moves the pages of dirty free regions into a block that is new or grows: a block seldom fits the
// gaps between regions in use, and faulting it in would raise the peak. A move of 2 MiB costs the
// kernel one entry of a page table (docs/decisions/0011-move-pages-into-blocks.md).
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "pages/filled_regions.h"
#include "pages/huge_pages.h"
#include "pages/page_core.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class PageMoves {
 public:
  static constexpr size_t kMost = 16;
  struct Plan {
    Tracker* to[kMost];
    Tracker* from[kMost];
    size_t count = 0;
  };

  void Bind(PageCore<System>& core, Transit<System>& transit, FilledRegions<System>& filled) {
    core_ = &core;
    transit_ = &transit;
    filled_ = &filled;
  }

  // Called with the lock: plans the moves into the regions [first, end) of a block, which have no
  // used granules. The sources are in transit from then on.
  GRANARY_COLD void Prepare(Tracker* head, size_t first, size_t end, Plan* plan) noexcept {
    if (refused_ || core_->figures.dirty() < Tracker::kGranules) return;
    size_t wanted = 0;
    for (size_t i = first; i < end && wanted < kMost; ++i) {
      Tracker* const t = core_->At(head, i);
      if (t->dirty_count == 0 && !t->split && (t->moved_in || moved_ + wanted < kMostMoved))
        plan->to[wanted++] = t;
    }
    if (wanted == 0) return;
    // The kernel moves its advice about a mapping with the pages: source and target must agree on
    // huge pages.
    core_->free.ForEachDirty([&](Tracker* t) {
      if (t->dirty_count >= Tracker::kGranules / 2 && !t->split &&
          t->huge_allowed == head->huge_allowed)
        plan->from[plan->count++] = t;
      return plan->count < wanted;
    });
    for (size_t i = 0; i < plan->count; ++i) {
      Tracker* const from = plan->from[i];
      core_->free.TakeAt(from, 1);
      transit_->Take(from, 1);
      from->prepared = false;
      core_->figures.TakeDirty(from->ClearDirty());
    }
  }

  // Called without the lock. Returns the number of moves. If there are fewer than planned and
  // `lost` is set, the heap lost the next region.
  GRANARY_COLD size_t Run(const Plan& plan, bool* lost) noexcept {
    *lost = false;
    size_t done = 0;
    for (size_t i = 0; i < plan.count; ++i) {
      const bool tries = done == i;
      MoveResult result{};
      if (tries) result = System::MovePages(plan.from[i]->base, kTrackerBytes, plan.to[i]->base);
      const bool moved = result.bytes == kTrackerBytes;
      Locked hold(core_->mutex);
      if (tries && !moved) refused_ = true;
      if (moved) ++done;
      *lost |= result.lost;
      Arrive(plan.from[i], plan.to[i], moved);
    }
    return done;
  }

  // Called with the lock, when t is unmapped: its mapping no longer counts.
  void Forget(const Tracker* t) noexcept {
    if (t->moved_in) --moved_;
  }

 private:
  // Each region with moved pages is a separate mapping. The kernel limits their number: 65,530 by
  // default.
  static constexpr size_t kMostMoved = 8192;

  // Pages that the system did not move stay in their place. Those that it moved behind the end of
  // the block are dirty.
  void Arrive(Tracker* from, Tracker* to, bool moved) noexcept {
    if (moved) {
      moved_ += to->moved_in ? 0 : 1;
      to->moved_in = to->filled = true;
      filled_->CountDirty(to);
    } else {
      from->MarkDirty(0, Tracker::kGranules);
      core_->figures.AddDirty(Tracker::kGranules);
    }
    transit_->Return(from, 1);
  }

  PageCore<System>* core_ = nullptr;
  Transit<System>* transit_ = nullptr;
  FilledRegions<System>* filled_ = nullptr;
  size_t moved_ = 0;
  bool refused_ = false;  // after one refusal no move is attempted
};

}  // namespace granary
