// Faults in memory before it is needed: a steadily growing heap finds its next regions backed by
// huge pages. That costs a fraction of one fault for each small page, and the program does not wait
// while the kernel makes a huge page.
#pragma once

#include "base/compiler.h"
#include "pages/address_space.h"
#include "pages/huge_pages.h"
#include "pages/page_core.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class GrowthAhead {
 public:
  void Bind(PageCore<System>& core, Transit<System>& transit, HugePages<System>& huge,
            AddressSpace<System>& space) {
    space_ = &space;
    core_ = &core;
    transit_ = &transit;
    huge_ = &huge;
  }

  // Faults in the region of p, an address in a span of the caller, to measure the cost of a huge
  // page.
  GRANARY_COLD void Measure(void* p) noexcept {
    if (p == nullptr) return;
    char* const base = reinterpret_cast<char*>(RoundDown(AddressOf(p), kTrackerBytes));
    const uint64_t before = System::ThreadNanos();
    if (!System::Populate(base, kTrackerBytes)) return;
    const uint64_t nanos = System::ThreadNanos() - before;
    {
      Locked hold(core_->mutex);
      huge_->NoteCost(nanos);
    }
    if (huge_->IsSlow()) KeepFreeSmall();
  }

  // Faults in one of the next two regions of the heap if it is untouched; false if there is nothing
  // to do. One caller at a time.
  GRANARY_COLD bool Prepare() noexcept {
    bool populated = false;
    {
      Locked hold(core_->mutex);
      if (!huge_->MayTry()) return false;
      Tracker* const t = TakeUntouched();
      if (t == nullptr) return false;
      populated = Populate(t);
      if (populated) {
        t->MarkDirty(0, Tracker::kGranules);
        t->prepared = true;
        core_->figures.Grow(Tracker::kGranules);
        core_->figures.AddDirty(Tracker::kGranules);
      }
      transit_->Return(t, 1);
    }
    if (huge_->IsSlow()) KeepFreeSmall();
    return populated;
  }

 private:
  // From this size on, two regions instead of one are prepared.
  static constexpr size_t kTwoAheadFrom = 256 * kMiB;

  Tracker* TakeNext() noexcept {
    Tracker* const t = core_->free.Take(1, kTrackerBytes, true);
    if (t != nullptr || !space_->CommitHuge()) return t;
    return core_->free.Take(1, kTrackerBytes, true);
  }

  // The tracker to prepare, in transit; nullptr if the next two were touched already.
  Tracker* TakeUntouched() noexcept {
    Tracker* const first = TakeNext();
    if (first == nullptr) return nullptr;
    transit_->Take(first, 1);
    if (first->dirty_count == 0) return first;
    const bool large = core_->figures.mapped_bytes() >= kTwoAheadFrom;
    Tracker* const second = large && first->prepared ? TakeNext() : nullptr;
    if (second != nullptr) transit_->Take(second, 1);
    transit_->Return(first, 1);
    if (second == nullptr || second->dirty_count == 0) return second;
    transit_->Return(second, 1);
    return nullptr;
  }

  // Called with the lock, and returns with it.
  bool Populate(Tracker* t) noexcept {
    const bool whole = huge_->NoteWhole(t);
    bool populated;
    uint64_t nanos;
    {
      typename Transit<System>::Unlocked out(*transit_);
      if (whole) System::AllowHuge(t->base, kTrackerBytes, true);
      const uint64_t before = System::ThreadNanos();
      populated = System::Populate(t->base, kTrackerBytes);
      nanos = System::ThreadNanos() - before;
    }
    if (populated) huge_->NoteCost(nanos);
    return populated;
  }

  // Makes the kernel back untouched regions with small pages, until the regions were used and
  // purged. A few at a time, so that a thread that needs memory finds some.
  GRANARY_COLD void KeepFreeSmall() noexcept {
    constexpr size_t kAtATime = 8;
    Locked hold(core_->mutex);
    size_t count = 0;
    for (const char* from = nullptr;
         Tracker* const first = core_->free.TakeBeyond(from, kAtATime, &count);) {
      transit_->Take(first, count);
      bool splits[kAtATime];
      for (size_t i = 0; i < count; ++i) {
        Tracker* const t = core_->At(first, i);
        splits[i] = t->dirty_count == 0 && huge_->NoteSplit(t);
      }
      from = first->base + count * kTrackerBytes;
      {
        typename Transit<System>::Unlocked out(*transit_);
        for (size_t i = 0; i < count; ++i) {
          if (splits[i]) System::AllowHuge(first->base + i * kTrackerBytes, kTrackerBytes, false);
        }
      }
      transit_->Return(first, count);
    }
  }

  PageCore<System>* core_ = nullptr;
  Transit<System>* transit_ = nullptr;
  HugePages<System>* huge_ = nullptr;
  AddressSpace<System>* space_ = nullptr;
};

}  // namespace granary
