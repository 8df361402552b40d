// Runs of free trackers. The first tracker of a run holds the run's length and is a node of two
// trees: one by address, to find the neighbours of a freed tracker; one by size, to find the
// smallest run that fits, the lowest address first. Either all trackers of a run may have huge
// pages, or none. Dirty free trackers are also in a list. Each operation takes O(log n) per tracker
// at most.
#pragma once

#include <cstddef>

#include "base/treap.h"
#include "pages/page_map.h"
#include "pages/tracker.h"

namespace granary {

class FreeRuns {
 public:
  constexpr FreeRuns() = default;
  explicit constexpr FreeRuns(PageMap& map) : map_(&map) {}
  void Bind(PageMap& map) { map_ = &map; }

  // Adds `count` trackers from `first` on, which are in no run.
  void Add(Tracker* first, size_t count) {
    while (count > 0) {  // a block that grew may have trackers with and without huge pages
      size_t alike = 1;
      while (alike < count && At(first, alike)->huge_allowed == first->huge_allowed) ++alike;
      Tracker* const next = alike < count ? At(first, alike) : nullptr;
      AddAlike(first, alike);
      first = next;
      count -= alike;
    }
  }

  // Takes `count` consecutive trackers, the first aligned to `alignment` bytes, from the runs with
  // huge pages or those without, if may(first of them) is true; nullptr if there are none. The
  // caller sets their state.
  template <class May>
  Tracker* Take(size_t count, size_t alignment, bool huge, May&& may) {
    Tracker* const run = Find(count, alignment, huge, may);
    return run == nullptr ? nullptr : TakeFrom(run, SkipFor(run, alignment), count);
  }
  Tracker* Take(size_t count, size_t alignment, bool huge) {
    return Take(count, alignment, huge, [](const Tracker*) { return true; });
  }
  // From all runs.
  Tracker* Take(size_t count, size_t alignment) {
    const auto any = [](const Tracker*) { return true; };
    Tracker* run = Find(count, alignment, false, any);
    Tracker* const other = Find(count, alignment, true, any);
    if (run == nullptr || (other != nullptr && BySize::Less(*other, *run))) run = other;
    return run == nullptr ? nullptr : TakeFrom(run, SkipFor(run, alignment), count);
  }

  // Takes the `count` trackers from `first` on; fails unless all are free.
  bool TakeAt(Tracker* first, size_t count) {
    if (first == nullptr || first->state != Tracker::State::kFree) return false;
    Tracker* const run = RunAt(first->base);
    const size_t skip = static_cast<size_t>(first->base - run->base) / kTrackerBytes;
    if (skip + count > run->trackers) return false;
    TakeFrom(run, skip, count);
    return true;
  }

  // The number of consecutive free trackers before `end` that agree on huge pages.
  size_t CountBefore(const char* end) const {
    const Tracker* const run = RunAt(end - kTrackerBytes);
    return run != nullptr && EndOf(run) >= end
               ? static_cast<size_t>(end - run->base) / kTrackerBytes
               : 0;
  }

  // Takes up to `most` consecutive dirty trackers; nullptr if there are none. The caller sets their
  // state.
  Tracker* TakeDirty(size_t most, size_t* count) {
    Tracker* const first = dirty_.first();
    if (first == nullptr) return nullptr;
    Tracker* const run = RunAt(first->base);
    const size_t skip = static_cast<size_t>(first->base - run->base) / kTrackerBytes;
    const size_t left = run->trackers - skip;
    *count = 1;
    while (*count < most && *count < left && At(first, *count)->dirty_count > 0) ++*count;
    return TakeFrom(run, skip, *count);
  }

  // Takes up to `most` trackers of the lowest run that ends after `p`, from p on; nullptr if there
  // is none. The caller sets their state.
  Tracker* TakeBeyond(const char* p, size_t most, size_t* count) {
    Tracker* run = RunAt(p);
    if (run == nullptr || run->base + run->trackers * kTrackerBytes <= p) {
      run = by_address_.First([p](const Tracker& t) { return t.base > p; });
    }
    if (run == nullptr) return nullptr;
    const size_t skip = run->base < p ? static_cast<size_t>(p - run->base) / kTrackerBytes : 0;
    const size_t left = run->trackers - skip;
    *count = left < most ? left : most;
    return TakeFrom(run, skip, *count);
  }

  // Calls visit(tracker) for each dirty free tracker until it returns false.
  template <class Visit>
  void ForEachDirty(Visit&& visit) const {
    for (Tracker* t = dirty_.first(); t != nullptr && visit(t); t = t->next) {
    }
  }

  void Verify() const {
    size_t listed = 0, found = 0, sized = 0;
    for (const auto& sizes : by_size_) {
      for (Tracker* run = sizes.first(); run != nullptr; run = sizes.After(run)) ++sized;
    }
    for (Tracker* run = by_address_.first(); run != nullptr; run = by_address_.After(run)) {
      --sized;
      GRANARY_CHECK(run->trackers > 0);
      const Tracker* const after = by_address_.After(run);
      GRANARY_CHECK(after == nullptr || !Continues(run, after));
      for (size_t i = 0; i < run->trackers; ++i) {
        const Tracker* const t = At(run, i);
        GRANARY_CHECK(t->huge_allowed == run->huge_allowed);
        GRANARY_CHECK(t->state == Tracker::State::kFree && t->used_count == 0);
        t->Verify();
        if (t->dirty_count > 0) ++found;
      }
    }
    ForEachDirty([&](Tracker* t) {
      GRANARY_CHECK(t->state == Tracker::State::kFree && t->dirty_count > 0);
      return ++listed <= found;
    });
    GRANARY_CHECK(listed == found && sized == 0);
  }

 private:
  struct ByAddress {
    static bool Less(const Tracker& a, const Tracker& b) { return a.base < b.base; }
  };
  struct BySize {
    static bool Less(const Tracker& a, const Tracker& b) {
      return a.trackers != b.trackers ? a.trackers < b.trackers : a.base < b.base;
    }
  };

  Tracker* At(const Tracker* first, size_t index) const {
    return map_->TrackerAt(first->base + index * kTrackerBytes);
  }
  static char* EndOf(const Tracker* run) { return run->base + run->trackers * kTrackerBytes; }

  // The last run that begins at or before p.
  Tracker* RunAt(const char* p) const {
    return by_address_.LastBefore([p](const Tracker& t) { return t.base > p; });
  }

  // Whether the run `next` continues the run `run`.
  static bool Continues(const Tracker* run, const Tracker* next) {
    return EndOf(run) == next->base && run->huge_allowed == next->huge_allowed;
  }

  void AddAlike(Tracker* first, size_t count) {
    for (size_t i = count; i-- > 0;) {
      Tracker* const t = At(first, i);
      t->state = Tracker::State::kFree;
      if (t->dirty_count > 0) dirty_.Push(t);
    }
    first->trackers = static_cast<uint32_t>(count);
    if (Tracker* const before = RunAt(first->base); before != nullptr && Continues(before, first)) {
      Erase(before);
      before->trackers += first->trackers;
      first = before;
    }
    Tracker* const after =
        by_address_.First([first](const Tracker& t) { return t.base > first->base; });
    if (after != nullptr && Continues(first, after)) {
      Erase(after);
      first->trackers += after->trackers;
    }
    Insert(first);
  }

  static size_t SkipFor(const Tracker* run, size_t alignment) {
    return (RoundUp(AddressOf(run->base), alignment) - AddressOf(run->base)) / kTrackerBytes;
  }

  static bool Fits(const Tracker* run, size_t count, size_t alignment) {
    const size_t skip = SkipFor(run, alignment);
    return skip < run->trackers && count <= run->trackers - skip;
  }

  template <class May>
  Tracker* Find(size_t count, size_t alignment, bool huge, May&& may) const {
    const auto& sizes = by_size_[huge ? 1 : 0];
    Tracker* run = sizes.First([count](const Tracker& t) { return t.trackers >= count; });
    for (; run != nullptr; run = sizes.After(run)) {
      if (Fits(run, count, alignment) && may(At(run, SkipFor(run, alignment)))) break;
    }
    return run;
  }

  void Insert(Tracker* run) {
    by_address_.Insert(run);
    by_size_[run->huge_allowed ? 1 : 0].Insert(run);
  }
  void Erase(Tracker* run) {
    by_address_.Remove(run);
    by_size_[run->huge_allowed ? 1 : 0].Remove(run);
  }

  Tracker* TakeFrom(Tracker* run, size_t skip, size_t count) {
    Erase(run);
    const size_t total = run->trackers;
    Tracker* const first = At(run, skip);
    for (size_t i = 0; i < count; ++i) {
      Tracker* const t = At(first, i);
      if (t->dirty_count > 0) dirty_.Remove(t);
    }
    if (skip > 0) {
      run->trackers = static_cast<uint32_t>(skip);
      Insert(run);
    }
    if (skip + count < total) {
      Tracker* const rest = At(first, count);
      rest->trackers = static_cast<uint32_t>(total - skip - count);
      Insert(rest);
    }
    return first;
  }

  PageMap* map_ = nullptr;
  Treap<Tracker, &Tracker::by_address, ByAddress> by_address_;
  Treap<Tracker, &Tracker::by_size, BySize> by_size_[2];  // without huge pages, with huge pages
  TrackerList dirty_;
};

}  // namespace granary
