// Chooses the tracker (2 MiB) from which a span comes: trackers with spans, in lists by the length
// of their longest free run, then by fullness. A span comes from the list of the best fit, and from
// the fullest tracker in it: empty trackers stay empty and can be purged whole (the order of Hunter
// et al., "Beyond malloc efficiency to fleet efficiency").
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "pages/tracker.h"

namespace granary {

class TrackersByFit {
 public:
  // t->longest is set.
  void Insert(Tracker* t) {
    t->list = static_cast<uint16_t>(ListOf(*t));
    lists_[t->list].Push(t);
    SetBits(nonempty_, t->list, 1);
  }

  void Remove(Tracker* t) {
    lists_[t->list].Remove(t);
    if (lists_[t->list].first() == nullptr) ClearBits(nonempty_, t->list, 1);
  }

  // Call it after the free granules of t changed, with the length of its longest free run. Few
  // changes need another list, and only those touch the neighbours of t.
  void Relink(Tracker* t, size_t longest) {
    t->longest = static_cast<uint16_t>(longest);
    if (ListOf(*t) == t->list) return;
    Remove(t);
    Insert(t);
  }

  // A tracker with a free run of at least `granules`; nullptr if there is none.
  Tracker* Find(size_t granules) const {
    const size_t list = FindBit(nonempty_, granules * kFills, kLists, true);
    return list < kLists ? lists_[list].first() : nullptr;
  }

  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (const TrackerList& list : lists_) {
      for (Tracker* t = list.first(); t != nullptr; t = t->next) visit(t);
    }
  }

 private:
  static constexpr size_t kFills = 4;
  static constexpr size_t kLists = (Tracker::kGranules + 1) * kFills;

  static size_t ListOf(const Tracker& t) {
    const size_t emptiness =
        (Tracker::kGranules - t.used_count) * kFills / (Tracker::kGranules + 1);
    return t.longest * kFills + emptiness;
  }

  TrackerList lists_[kLists];
  uint64_t nonempty_[DivideUp(kLists, 64)] = {};
};

}  // namespace granary
