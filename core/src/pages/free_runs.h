// Runs of wholly free trackers. A run is known by its first tracker, which is in a list; the first
// and the last both hold its length, so that neighbours merge without a search (Knuth's boundary
// tags). The smallest run that fits is taken, the lowest of equals, from its low end. All trackers
// of a run are alike in whether the kernel may back them with huge pages.
#pragma once

#include <cstddef>

#include "pages/page_map.h"
#include "pages/tracker.h"

namespace granary {

class FreeRuns {
 public:
  constexpr FreeRuns() = default;
  explicit constexpr FreeRuns(PageMap& map) : map_(&map) {}
  void Bind(PageMap& map) { map_ = &map; }

  // All `count` trackers from `first` on become free; they must not be part of a run.
  void Add(Tracker* first, size_t count) {
    while (count > 0) {  // a block that grew may have trackers of both kinds
      size_t alike = 1;
      while (alike < count && At(first, alike)->huge_allowed == first->huge_allowed) ++alike;
      Tracker* const next = alike < count ? At(first, alike) : nullptr;
      AddAlike(first, alike);
      first = next;
      count -= alike;
    }
  }

  // `count` trackers in a row, the first aligned to `alignment` bytes, out of the runs for which
  // may(first of them) is true; nullptr if there are none. Their state is left for the caller to
  // set.
  template <class May>
  Tracker* Take(size_t count, size_t alignment, May&& may) {
    Tracker* best = nullptr;
    for (Tracker* run = runs_.first(); run != nullptr; run = run->next) {
      if (!Fits(run, count, alignment)) continue;
      if (!may(map_->TrackerAt(run->base + SkipFor(run, alignment) * kTrackerBytes))) continue;
      if (best == nullptr || run->trackers < best->trackers ||
          (run->trackers == best->trackers && run->base < best->base)) {
        best = run;
      }
    }
    return best == nullptr ? nullptr : TakeFrom(best, SkipFor(best, alignment), count);
  }
  Tracker* Take(size_t count, size_t alignment) {
    return Take(count, alignment, [](const Tracker*) { return true; });
  }

  // The trackers from `first` on, if `count` of them are free there.
  bool TakeAt(Tracker* first, size_t count) {
    if (first == nullptr || first->state != Tracker::State::kFree) return false;
    for (Tracker* run = runs_.first(); run != nullptr; run = run->next) {
      const char* const end = run->base + run->trackers * kTrackerBytes;
      if (first->base < run->base || first->base >= end) continue;
      const size_t skip = static_cast<size_t>(first->base - run->base) / kTrackerBytes;
      if (skip + count > run->trackers) return false;
      TakeFrom(run, skip, count);
      return true;
    }
    return false;
  }

  // Of the runs that reach beyond `p`, the first `most` trackers of the lowest, from p on; their
  // state is left for the caller to set. nullptr if there is none.
  Tracker* TakeBeyond(const char* p, size_t most, size_t* count) {
    Tracker* lowest = nullptr;
    for (Tracker* run = runs_.first(); run != nullptr; run = run->next) {
      if (run->base + run->trackers * kTrackerBytes <= p) continue;
      if (lowest == nullptr || run->base < lowest->base) lowest = run;
    }
    if (lowest == nullptr) return nullptr;
    const size_t skip =
        lowest->base < p ? static_cast<size_t>(p - lowest->base) / kTrackerBytes : 0;
    const size_t left = lowest->trackers - skip;
    *count = left < most ? left : most;
    return TakeFrom(lowest, skip, *count);
  }

  // Calls visit(tracker) for each free tracker until it returns false.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (Tracker* run = runs_.first(); run != nullptr; run = run->next) {
      for (size_t i = 0; i < run->trackers; ++i) {
        if (!visit(map_->TrackerAt(run->base + i * kTrackerBytes))) return;
      }
    }
  }

  void Verify() const {
    for (Tracker* run = runs_.first(); run != nullptr; run = run->next) {
      Tracker* const last = map_->TrackerAt(run->base + (run->trackers - 1) * kTrackerBytes);
      GRANARY_CHECK(run->trackers > 0 && last->trackers == run->trackers);
      Tracker* const after = map_->TrackerAt(last->base + kTrackerBytes);
      GRANARY_CHECK(!Continues(run, after));
      for (size_t i = 0; i < run->trackers; ++i) {
        const Tracker* const t = map_->TrackerAt(run->base + i * kTrackerBytes);
        GRANARY_CHECK(t->huge_allowed == run->huge_allowed);
      }
    }
    ForEach([](Tracker* t) {
      GRANARY_CHECK(t->state == Tracker::State::kFree && t->used_count == 0);
      t->Verify();
      return true;
    });
  }

 private:
  Tracker* At(const Tracker* first, size_t index) const {
    return map_->TrackerAt(first->base + index * kTrackerBytes);
  }

  void AddAlike(Tracker* first, size_t count) {
    char* const end = first->base + count * kTrackerBytes;
    for (char* p = first->base; p < end; p += kTrackerBytes) {
      map_->TrackerAt(p)->state = Tracker::State::kFree;
    }
    Tracker* const before = map_->TrackerAt(first->base - kTrackerBytes);
    if (Continues(first, before)) {
      Tracker* const head = map_->TrackerAt(end - (count + before->trackers) * kTrackerBytes);
      runs_.Remove(head);
      count += head->trackers;
      first = head;
    }
    Tracker* const after = map_->TrackerAt(end);
    if (Continues(first, after)) {
      runs_.Remove(after);
      count += after->trackers;
    }
    Insert(first, count);
  }

  // Whether `neighbour` belongs to the same run as the free tracker t.
  static bool Continues(const Tracker* t, const Tracker* neighbour) {
    return neighbour != nullptr && neighbour->state == Tracker::State::kFree &&
           neighbour->huge_allowed == t->huge_allowed;
  }

  static size_t SkipFor(const Tracker* run, size_t alignment) {
    return (RoundUp(AddressOf(run->base), alignment) - AddressOf(run->base)) / kTrackerBytes;
  }

  static bool Fits(const Tracker* run, size_t count, size_t alignment) {
    const size_t skip = SkipFor(run, alignment);
    return skip < run->trackers && count <= run->trackers - skip;
  }

  void Insert(Tracker* first, size_t count) {
    Tracker* const last = map_->TrackerAt(first->base + (count - 1) * kTrackerBytes);
    first->trackers = last->trackers = static_cast<uint32_t>(count);
    runs_.Push(first);
  }

  Tracker* TakeFrom(Tracker* run, size_t skip, size_t count) {
    runs_.Remove(run);
    const size_t total = run->trackers;
    char* const base = run->base;
    if (skip > 0) Insert(run, skip);
    if (skip + count < total) {
      Insert(map_->TrackerAt(base + (skip + count) * kTrackerBytes), total - skip - count);
    }
    return map_->TrackerAt(base + skip * kTrackerBytes);
  }

  PageMap* map_ = nullptr;
  TrackerList runs_;
};

}  // namespace granary
