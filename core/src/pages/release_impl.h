// When memory goes back. Pages are taken out of the heap under the lock, given back without it, and
// only then are free again: nobody waits for the system.
#pragma once

#include "pages/pages.h"

namespace granary {

template <Os System>
void PageHeap<System>::EndWindow() noexcept {
  Locked hold(mutex_);
  CountAllFilled();
  owed_.store(low_.EndWindow(dirty_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
}

template <Os System>
size_t PageHeap<System>::PayDebt(size_t bytes) noexcept {
  const size_t owed = owed_bytes();
  const size_t paid = Release(bytes < owed ? bytes : owed);
  const size_t left = owed > paid && paid > 0 ? owed - paid : 0;
  owed_.store(left / kGranule, std::memory_order_relaxed);
  return paid;
}

template <Os System>
size_t PageHeap<System>::Release(size_t bytes) noexcept {
  size_t done = 0;
  while (done < bytes) {
    size_t step = ReleaseFree(bytes - done);
    if (step == 0) step = ReleaseOneRun();
    if (step == 0) break;
    done += step;
  }
  return done;
}

template <Os System>
size_t PageHeap<System>::ReleaseAll() noexcept {
  CountFilled();
  return Release(~size_t{0} / 2);
}

// What the system refuses (locked pages) stays resident; it is zeroed so that "clean" is true.
template <Os System>
void PageHeap<System>::ReleaseOrZero(char* p, size_t bytes) noexcept {
  if (!System::Release(p, bytes)) __builtin_memset(p, 0, bytes);
}

template <Os System>
void PageHeap<System>::ReleaseUnlocked(Tracker* t, BitRun run, bool splits) noexcept {
  char* const p = t->Address(run.first);
  const size_t bytes = run.count * kGranule;
  ++busy_;
  mutex_.Unlock();
  if (splits) Split(t, p);
  ReleaseOrZero(p, bytes);
  mutex_.Lock();
  --busy_;
  released_.fetch_add(run.count, std::memory_order_relaxed);
}

// A few dirty free trackers in a row, whole; 0 if there is none.
template <Os System>
size_t PageHeap<System>::ReleaseFree(size_t bytes) noexcept {
  size_t most = DivideUp(bytes, kTrackerBytes);
  if (most > kReleasedTogether) most = kReleasedTogether;
  Locked hold(mutex_);
  size_t count = 0;
  Tracker* const first = free_.TakeDirty(most, &count);
  if (first == nullptr) return 0;
  size_t dirty = 0;
  bool whole[kReleasedTogether];
  for (size_t i = 0; i < count; ++i) {
    Tracker* const t = map_->TrackerAt(first->base + i * kTrackerBytes);
    t->state = State::kLargeBody;
    NoteTaken(t, false);
    dirty += t->UseDirty(0, Tracker::kGranules);
    whole[i] = !HugeIsSlow() && NoteWhole(t);
  }
  Account(count * Tracker::kGranules, dirty);
  ++busy_;
  mutex_.Unlock();
  ReleaseOrZero(first->base, count * kTrackerBytes);
  for (size_t i = 0; i < count; ++i) {
    if (whole[i]) System::AllowHuge(first->base + i * kTrackerBytes, kTrackerBytes, true);
  }
  mutex_.Lock();
  --busy_;
  for (size_t i = 0; i < count; ++i) {
    map_->TrackerAt(first->base + i * kTrackerBytes)->Unuse(0, Tracker::kGranules);
  }
  released_.fetch_add(count * Tracker::kGranules, std::memory_order_relaxed);
  Unaccount(count * Tracker::kGranules, 0);
  BecomeFree(first, count);
  return dirty * kGranule;
}

// The next tracker in address order, round and round, that has dirty granules beside used ones:
// between spans, or behind the end of a block.
template <Os System>
Tracker* PageHeap<System>::NextSharedTracker() noexcept {
  if (dirty_.load(std::memory_order_relaxed) == 0) return nullptr;
  for (int rounds = 0; rounds < 2;) {
    if (cursor_chunk_ == nullptr) {
      cursor_chunk_ = chunks_;
      cursor_ = 0;
      ++rounds;
      if (cursor_chunk_ == nullptr) return nullptr;
    }
    while (cursor_ < cursor_chunk_->trackers) {
      Tracker* const t = map_->TrackerAt(cursor_chunk_->base + cursor_ * kTrackerBytes);
      if (t->dirty_count > 0 && t->used_count > 0) return t;
      ++cursor_;
    }
    cursor_chunk_ = cursor_chunk_->next;
    cursor_ = 0;
  }
  return nullptr;
}

// The first run of dirty granules of that tracker; 0 if there is none.
template <Os System>
size_t PageHeap<System>::ReleaseOneRun() noexcept {
  Locked hold(mutex_);
  Tracker* const t = NextSharedTracker();
  if (t == nullptr) return 0;
  const BitRun run = NextRun(t->dirty, 0, Tracker::kGranules, true);
  const bool splits = NoteSplit(t);
  if (t->state != State::kSpans) return ReleaseTail(t, run, splits);
  SpansLike(t).Remove(t);
  t->UseDirty(run.first, run.count);
  SpansLike(t).Insert(t);
  Account(run.count, run.count);
  ReleaseUnlocked(t, run, splits);
  SpansLike(t).Remove(t);
  t->Unuse(run.first, run.count);
  Unaccount(run.count, 0);
  if (t->used_count == 0) {
    BecomeFree(t, 1);
  } else {
    SpansLike(t).Insert(t);
  }
  return run.count * kGranule;
}

// A free tracker's rows are zero, so that they may go while it is out of the runs. A few at a time:
// who needs memory meanwhile shall find some.
template <Os System>
size_t PageHeap<System>::ReleaseMap() noexcept {
  constexpr size_t kAtATime = 64;
  size_t done = 0;
  Locked hold(mutex_);
  for (const char* from = nullptr;;) {
    size_t count = 0;
    Tracker* const first = free_.TakeBeyond(from, kAtATime, &count);
    if (first == nullptr) return done;
    char* const base = first->base;
    for (size_t i = 0; i < count; ++i) {
      map_->TrackerAt(base + i * kTrackerBytes)->state = State::kLargeBody;
    }
    ++busy_;
    mutex_.Unlock();
    done += map_->template ReleaseRows<System>(base, count * kTrackerBytes);
    mutex_.Lock();
    --busy_;
    BecomeFree(first, count);
    from = base + count * kTrackerBytes;
  }
}

// A run of dirty granules behind the end of a block, in a tracker of the block's. Called with the
// lock; its owner may want to free or resize the block meanwhile, and waits (AwaitTail).
template <Os System>
size_t PageHeap<System>::ReleaseTail(Tracker* t, BitRun run, bool splits) noexcept {
  t->UseDirty(run.first, run.count);
  Account(run.count, run.count);
  ++t->leaving;
  ReleaseUnlocked(t, run, splits);
  --t->leaving;
  t->Unuse(run.first, run.count);
  Unaccount(run.count, 0);
  return run.count * kGranule;
}

// What lies dirty behind the end of a block cannot be handed out while the block lives. A small
// part of the block's last tracker may wait for the end of a window: a block that does not live
// that long leaves it to the next one, which would fault it in again.
template <Os System>
void PageHeap<System>::ReleaseBehind(Tracker* head) noexcept {
  Locked hold(mutex_);
  const bool waits = FillOf(head->bytes) == Fill::kDense;
  size_t i = waits ? DivideUp(head->bytes, kTrackerBytes) : head->bytes / kTrackerBytes;
  for (; i < head->trackers; ++i) {
    Tracker* const t = map_->TrackerAt(head->base + i * kTrackerBytes);
    // On the path of the program, and gone with the block: not worth a split.
    while (t->dirty_count > 0)
      ReleaseTail(t, NextRun(t->dirty, 0, Tracker::kGranules, true), false);
  }
}

// Called with the lock, by the owner of the block, before its end moves.
template <Os System>
void PageHeap<System>::AwaitTail(const Tracker* head) noexcept {
  const size_t last = (head->bytes - 1) / kTrackerBytes;
  Tracker* const t = map_->TrackerAt(head->base + last * kTrackerBytes);
  while (t->leaving > 0 && AwaitBusy()) continue;
  if (t->leaving == 0) return;
  // Who released it is not in this child of a fork: it stays.
  t->leaving = 0;
  const size_t end = DivideUp(head->bytes - last * kTrackerBytes, kGranule);
  for (BitRun run; (run = NextRun(t->used, end, Tracker::kGranules, true)).count > 0;) {
    t->Unuse(run.first, run.count);
    t->MarkDirty(run.first, run.count);
    Unaccount(run.count, run.count);
  }
}

}  // namespace granary
