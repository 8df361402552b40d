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
  Tracker* const first = free_.Take(1, kTrackerBytes, true);
  if (first == nullptr) return nullptr;
  first->state = State::kLargeBody;
  if (first->dirty_count == 0) return first;
  const bool large = mapped_.load(std::memory_order_relaxed) * kGranule >= kTwoAheadFrom;
  Tracker* const second = large && first->prepared ? free_.Take(1, kTrackerBytes, true) : nullptr;
  if (second != nullptr) second->state = State::kLargeBody;  // no neighbour for a free one
  BecomeFree(first, 1);
  if (second == nullptr) return nullptr;
  if (second->dirty_count == 0) return second;
  BecomeFree(second, 1);
  return nullptr;
}

// Called with the lock. One slow page among quick ones says little; when all is slow, a quick one
// says that it is over.
template <Os System>
void PageHeap<System>::NotePopulated(uint64_t nanos) noexcept {
  const uint32_t before = huge_backoff_.load(std::memory_order_relaxed);
  huge_nanos_ = before > 0 ? nanos : huge_nanos_ - huge_nanos_ / 8 + nanos / 8;
  uint32_t backoff = 0;
  if (huge_nanos_ > kSlowHugeNanos && huge_.load(std::memory_order_relaxed) == Huge::kLargeHeaps) {
    backoff = before == 0 ? kFirstBackoff : before < kMostBackoff ? before * 2 : kMostBackoff;
  }
  huge_backoff_.store(backoff, std::memory_order_relaxed);
  huge_retry_at_ = fresh_.load(std::memory_order_relaxed) + backoff;
}

// Untouched trackers are to be backed by small pages, until they were in use and went back. A few
// at a time: who needs memory meanwhile shall find some.
template <Os System>
void PageHeap<System>::KeepFreeSmall() noexcept {
  constexpr size_t kAtATime = 8;
  Locked hold(mutex_);
  for (const char* from = nullptr;;) {
    size_t count = 0;
    Tracker* const first = free_.TakeBeyond(from, kAtATime, &count);
    if (first == nullptr) return;
    bool splits[kAtATime];
    for (size_t i = 0; i < count; ++i) {
      Tracker* const t = map_->TrackerAt(first->base + i * kTrackerBytes);
      t->state = State::kLargeBody;
      splits[i] = t->dirty_count == 0 && NoteSplit(t);
    }
    from = first->base + count * kTrackerBytes;
    ++busy_;
    mutex_.Unlock();
    for (size_t i = 0; i < count; ++i) {
      if (splits[i]) System::AllowHuge(first->base + i * kTrackerBytes, kTrackerBytes, false);
    }
    mutex_.Lock();
    --busy_;
    BecomeFree(first, count);
  }
}

// Called with the lock, returns with it.
template <Os System>
bool PageHeap<System>::Populate(Tracker* t) noexcept {
  const bool whole = NoteWhole(t);
  ++busy_;
  mutex_.Unlock();
  if (whole) System::AllowHuge(t->base, kTrackerBytes, true);
  const uint64_t before = System::ThreadNanos();
  const bool populated = System::Populate(t->base, kTrackerBytes);
  const uint64_t nanos = System::ThreadNanos() - before;
  mutex_.Lock();
  --busy_;
  if (populated) NotePopulated(nanos);
  return populated;
}

template <Os System>
bool PageHeap<System>::PrepareAhead() noexcept {
  bool populated = false;
  {
    Locked hold(mutex_);
    const uint32_t left = huge_retry_at_ - fresh_.load(std::memory_order_relaxed);
    if (HugeIsSlow() && left <= kMostBackoff && left > 0) return false;
    Tracker* const t = TakeUntouched();
    if (t == nullptr) return false;
    populated = Populate(t);
    if (populated) {
      t->MarkDirty(0, Tracker::kGranules);
      t->prepared = true;
      grown_.store(grown_.load(std::memory_order_relaxed) + Tracker::kGranules,
                   std::memory_order_relaxed);
      Unaccount(0, Tracker::kGranules);
    }
    BecomeFree(t, 1);
  }
  if (HugeIsSlow()) KeepFreeSmall();
  return populated;
}

}  // namespace granary
