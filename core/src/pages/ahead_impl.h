// Faulting ahead of need: a heap that grows steadily finds its next trackers already backed by huge
// pages, at a fraction of the cost of one fault for each small page and without the stall of a huge
// one on the path of the program.
#pragma once

#include "pages/pages.h"

namespace granary {

template <Os System>
void PageHeap<System>::NoteTaken(Tracker* t, bool for_spans) noexcept {
  t->prepared = false;
  t->filled = false;
  if (for_spans) NoteFilled(t);
  if (for_spans && t->huge_allowed) fresh_.fetch_add(1, std::memory_order_relaxed);
}

// The tracker to prepare, out of the free runs; nullptr if the next two are no longer untouched.
template <Os System>
Tracker* PageHeap<System>::TakeUntouched() noexcept {
  const auto huge = [](const Tracker* t) { return t->huge_allowed; };
  Tracker* const first = free_.Take(1, kTrackerBytes, huge);
  if (first == nullptr) return nullptr;
  first->state = State::kLargeBody;
  if (first->dirty_count == 0) return first;
  const bool large = mapped_.load(std::memory_order_relaxed) * kGranule >= kTwoAheadFrom;
  Tracker* const second = large && first->prepared ? free_.Take(1, kTrackerBytes, huge) : nullptr;
  if (second != nullptr) second->state = State::kLargeBody;  // no neighbour for a free one
  BecomeFree(first, 1);
  if (second == nullptr) return nullptr;
  if (second->dirty_count == 0) return second;
  BecomeFree(second, 1);
  return nullptr;
}

template <Os System>
bool PageHeap<System>::PrepareAhead() noexcept {
  Locked hold(mutex_);
  Tracker* const t = TakeUntouched();
  if (t == nullptr) return false;
  const bool whole = NoteWhole(t);
  ++busy_;
  mutex_.Unlock();
  if (whole) System::AllowHuge(t->base, kTrackerBytes, true);
  const bool populated = System::Populate(t->base, kTrackerBytes);
  mutex_.Lock();
  --busy_;
  if (populated) {
    t->MarkDirty(0, Tracker::kGranules);
    t->prepared = true;
    grown_.store(grown_.load(std::memory_order_relaxed) + Tracker::kGranules,
                 std::memory_order_relaxed);
    Unaccount(0, Tracker::kGranules);
  }
  BecomeFree(t, 1);
  return populated;
}

}  // namespace granary
