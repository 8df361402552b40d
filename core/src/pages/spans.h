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
    const BitRun run = t->BestFit(granules);
    Memory memory{t->Address(run.first)};
    for (size_t i = 0; i < granules && i < 64; ++i) {
      memory.dirty |= uint64_t{AllSet(t->dirty, run.first + i, 1)} << i;
    }
    const size_t dirty = t->UseDirty(run.first, granules);
    ListOf(t).Insert(t);
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
    ListOf(t).Remove(t);
    t->Unuse(first, granules);
    size_t held = 0;
    for (size_t i = 0; i < granules; ++i) {
      if (i < 64 && ((dirty >> i) & 1) == 0) continue;
      t->MarkDirty(first + i, 1);
      ++held;
    }
    core_->figures.Unuse(granules, held);
    Put(t);
  }

  // Purges the first dirty run of t, a tracker with spans. Called with the lock, and releases it;
  // returns the number of bytes.
  GRANARY_COLD size_t PurgeRun(Tracker* t) noexcept {
    const BitRun run = NextRun(t->dirty, 0, Tracker::kGranules, true);
    const bool splits = huge_->NoteSplit(t);
    ListOf(t).Remove(t);
    t->UseDirty(run.first, run.count);
    ListOf(t).Insert(t);
    core_->figures.Use(run.count, run.count);
    {
      typename Transit<System>::Unlocked out(*transit_);
      char* const p = t->Address(run.first);
      if (splits) huge_->Split(t, p);
      PurgeOrClear<System>(p, run.count * kGranule);
    }
    core_->figures.Purged(run.count);
    ListOf(t).Remove(t);
    t->Unuse(run.first, run.count);
    core_->figures.Unuse(run.count, 0);
    Put(t);
    return run.count * kGranule;
  }

 private:
  TrackersByFit& ListOf(const Tracker* t) { return lists_[t->huge_allowed ? 1 : 0]; }

  // Returns the tracker to its list, or to the free runs if it has no span.
  void Put(Tracker* t) noexcept {
    if (t->used_count > 0) return ListOf(t).Insert(t);
    filled_->CountDirty(t);
    core_->free.Add(t, 1);
  }

  // Takes a tracker with so many consecutive free granules out of its list; nullptr if the system
  // refuses.
  Tracker* TrackerFor(size_t granules, Density density) noexcept {
    do {
      if (Tracker* const t = Find(granules, density); t != nullptr) {
        ListOf(t).Remove(t);
        return t;
      }
      if (Tracker* const t = space_->Take(1, kTrackerBytes, density); t != nullptr) {
        t->BeginUse(State::kSpans);
        filled_->Note(t);
        if (t->huge_allowed) huge_->NoteFresh(t);
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
