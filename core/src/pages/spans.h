// Spans: runs of granules inside one region, for slabs and medium objects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "pages/address_space.h"
#include "pages/filled_regions.h"
#include "pages/huge_pages.h"
#include "pages/page_core.h"
#include "pages/trackers_by_fit.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class Spans {
 public:
  using State = Tracker::State;

  void Bind(PageCore<System>& core, Transit<System>& transit, HugePages<System>& huge,
            FilledRegions<System>& filled, AddressSpace<System>& space) {
    core_ = &core;
    transit_ = &transit;
    huge_ = &huge;
    filled_ = &filled;
    space_ = &space;
  }

  // 1 <= granules <= Tracker::kGranules. p is nullptr if the system refuses.
  Memory Allocate(size_t granules, Density density) noexcept {
    Locked hold(core_->mutex);
    if (core_->figures.Exceeds(granules)) return {};
    Tracker* const t = TrackerFor(granules, density);
    if (t == nullptr) return {};
    const auto [run, other] = t->BestFit(granules);
    const Memory memory{t->Address(run.first),
                        BitsAt(t->dirty, run.first, granules < 64 ? granules : 64)};
    const size_t dirty = t->UseDirty(run.first, granules);
    const size_t rest = run.count - granules;
    ListOf(t).Relink(t, rest > other ? rest : other);
    core_->figures.Use(granules, dirty);
    core_->figures.Grow(granules - dirty);
    return memory;
  }

  // `dirty` has one bit for each of the first 64 granules; those without a bit read as zero.
  void Free(void* p, size_t granules, uint64_t dirty) noexcept {
    Locked hold(core_->mutex);
    Tracker* const t = core_->map->TrackerAt(p);
    const size_t first = static_cast<size_t>(static_cast<char*>(p) - t->base) / kGranule;
    GRANARY_DCHECK(AllSet(t->used, first, granules));
    t->Unuse(first, granules);
    core_->figures.Unuse(granules, t->MarkDirty(first, granules, dirty));
    Relink(t, t->FreeAround(first, granules));
  }

  // Purges the first dirty run of t, a tracker with spans. Called with the lock, and releases it;
  // returns the number of bytes.
  GRANARY_COLD size_t PurgeRun(Tracker* t) noexcept {
    const BitRun run = NextRun(t->dirty, 0, Tracker::kGranules, true);
    const bool splits = huge_->NoteSplit(t);
    t->UseDirty(run.first, run.count);
    ListOf(t).Relink(t, t->LongestFree());
    core_->figures.Use(run.count, run.count);
    {
      typename Transit<System>::Unlocked out(*transit_);
      char* const p = t->Address(run.first);
      if (splits) huge_->Split(t, p);
      PurgeOrClear<System>(p, run.count * kGranule);
    }
    core_->figures.Purged(run.count);
    t->Unuse(run.first, run.count);
    core_->figures.Unuse(run.count, 0);
    Relink(t, t->FreeAround(run.first, run.count));
    return run.count * kGranule;
  }

 private:
  TrackersByFit& ListOf(const Tracker* t) { return lists_[t->huge_allowed ? 1 : 0]; }

  // Call it after a span of t became free, part of a run of `free` granules. A tracker without
  // spans goes to the free runs.
  void Relink(Tracker* t, size_t free) noexcept {
    if (t->used_count > 0) return ListOf(t).Relink(t, free > t->longest ? free : t->longest);
    ListOf(t).Remove(t);
    filled_->CountDirty(t);
    core_->free.Add(t, 1);
  }

  // A tracker with so many consecutive free granules; nullptr if the system refuses.
  Tracker* TrackerFor(size_t granules, Density density) noexcept {
    do {
      if (Tracker* const t = Find(granules, density); t != nullptr) return t;
      if (Tracker* const t = space_->Take(1, kTrackerBytes, density); t != nullptr) {
        t->BeginUse(State::kSpans);
        filled_->Note(t);
        if (t->huge_allowed) huge_->NoteFresh(t);
        t->longest = Tracker::kGranules;
        ListOf(t).Insert(t);
        return t;
      }
    } while (transit_->Await());
    return nullptr;
  }

  // A tracker in use is preferred to a fresh one, with huge pages or without.
  Tracker* Find(size_t granules, Density density) noexcept {
    const int like = density == Density::kDense ? 1 : 0;
    Tracker* const t = lists_[like].Find(granules);
    return t != nullptr ? t : lists_[1 - like].Find(granules);
  }

  PageCore<System>* core_ = nullptr;
  Transit<System>* transit_ = nullptr;
  HugePages<System>* huge_ = nullptr;
  FilledRegions<System>* filled_ = nullptr;
  AddressSpace<System>* space_ = nullptr;
  TrackersByFit lists_[2];  // without huge pages, with huge pages
};

}  // namespace granary
