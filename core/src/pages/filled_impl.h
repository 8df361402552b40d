// What a huge page brings in beside the first span of an untouched tracker: free granules that hold
// pages although nobody wrote them. They count as clean at first, since they read as zero and a
// heap that grows takes them soon; what is left of them at the end of the window is dirty, and goes
// back like the rest.
#pragma once

#include "pages/pages.h"

namespace granary {

// Called with the lock.
template <Os System>
void PageHeap<System>::NoteFilled(Tracker* t) noexcept {
  if (!t->MayBeHuge() || t->dirty_count > 0) return;
  t->filled = true;
  Tracker*& place = filled_[filled_at_++ % kMostFilled];
  Tracker* const oldest = place;
  place = t;
  if (oldest != nullptr && oldest != t) CountFilled(oldest);
}

template <Os System>
void PageHeap<System>::CountFilled(Tracker* t) noexcept {
  if (!t->filled || t->state != State::kSpans) return;
  t->filled = false;
  const size_t before = t->dirty_count;
  for (BitRun run = NextRun(t->used, 0, Tracker::kGranules, false); run.count > 0;
       run = NextRun(t->used, run.first + run.count, Tracker::kGranules, false)) {
    t->MarkDirty(run.first, run.count);
  }
  Unaccount(0, t->dirty_count - before);
}

template <Os System>
void PageHeap<System>::CountAllFilled() noexcept {
  for (Tracker*& t : filled_) {
    if (t != nullptr) CountFilled(t);
    t = nullptr;
  }
}

}  // namespace granary
