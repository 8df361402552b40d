// Huge pages of which a part goes back. The kernel keeps such a page whole until memory is short,
// and gathers what is left of it into a new one when it comes by: the process shrinks, and the
// memory in use does not, or not for long. So the page is split first, and the tracker keeps to
// small ones until all of it goes.
#pragma once

#include "pages/pages.h"

namespace granary {

template <Os System>
int PageHeap<System>::SplitNeighbours(const Tracker* t) const noexcept {
  int split = 0;
  for (const char* at : {t->base - kTrackerBytes, t->base + kTrackerBytes}) {
    const Tracker* const neighbour = map_->TrackerAt(at);
    if (neighbour != nullptr && neighbour->split) ++split;
  }
  return split;
}

// Called with the lock: whether t has to be split now.
template <Os System>
bool PageHeap<System>::NoteSplit(Tracker* t) noexcept {
  if (!t->MayBeHuge()) return false;
  const int more = 2 - 2 * SplitNeighbours(t);
  if (more > 0 && split_borders_ + more > kMostSplitBorders) return false;
  split_borders_ += more;
  t->split = true;
  return true;
}

// Called with the lock, when all of t goes: whether huge pages have to be allowed again.
template <Os System>
bool PageHeap<System>::NoteWhole(Tracker* t) noexcept {
  if (!t->split) return false;
  split_borders_ -= 2 - 2 * SplitNeighbours(t);
  t->split = false;
  return true;
}

template <Os System>
void PageHeap<System>::Split(Tracker* t, void* p) noexcept {
  System::AllowHuge(t->base, kTrackerBytes, false);
  System::SplitHuge(p);
}

template <Os System>
void PageHeap<System>::SplitHugeAt(void* p) noexcept {
  Tracker* const t = map_->TrackerAt(p);
  mutex_.Lock();
  const bool splits = NoteSplit(t);
  mutex_.Unlock();
  if (splits) Split(t, p);
}

}  // namespace granary
