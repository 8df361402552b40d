// Blocks of whole trackers: how they are laid, resized in place and moved by their pages.
#pragma once

#include "pages/pages.h"

namespace granary {

// Takes the granules [from, to) of the block into use.
template <Os System>
void PageHeap<System>::UseBlock(Tracker* head, size_t from, size_t to, Memory* memory) noexcept {
  size_t dirty = 0;
  for (size_t g = from; g < to;) {
    Tracker* const t = map_->TrackerAt(head->base + RoundDown(g, Tracker::kGranules) * kGranule);
    const size_t first = g % Tracker::kGranules;
    const size_t count = Tracker::kGranules - first < to - g ? Tracker::kGranules - first : to - g;
    dirty += t->UseDirty(first, count);
    g += count;
  }
  if (memory != nullptr && dirty > 0) memory->dirty = ~uint64_t{0};
  large_.store(large_.load(std::memory_order_relaxed) + to - from, std::memory_order_relaxed);
  Account(to - from, dirty);
}

template <Os System>
void PageHeap<System>::UnuseBlock(Tracker* head, size_t from, size_t to, bool dirty) noexcept {
  for (size_t g = from; g < to;) {
    Tracker* const t = map_->TrackerAt(head->base + RoundDown(g, Tracker::kGranules) * kGranule);
    const size_t first = g % Tracker::kGranules;
    const size_t count = Tracker::kGranules - first < to - g ? Tracker::kGranules - first : to - g;
    t->Unuse(first, count);
    if (dirty) t->MarkDirty(first, count);
    g += count;
  }
  large_.store(large_.load(std::memory_order_relaxed) - (to - from), std::memory_order_relaxed);
  Unaccount(to - from, dirty ? to - from : 0);
}

template <Os System>
void PageHeap<System>::SetRequested(Tracker* head, size_t bytes) noexcept {
  const size_t sum = large_requested_.load(std::memory_order_relaxed) + bytes - head->requested;
  large_requested_.store(sum, std::memory_order_relaxed);
  head->requested = bytes;
}

template <Os System>
Memory PageHeap<System>::AllocateLarge(size_t bytes, size_t alignment, size_t reserve) noexcept {
  if (bytes > kMaxRequest - kTrackerBytes || alignment > kMaxRequest / 2) return {};
  if (bytes == 0) bytes = 1;
  if (reserve < bytes) reserve = bytes;
  Moves moves;
  mutex_.Lock();
  Memory memory = LayBlock(bytes, alignment, reserve, &moves);
  mutex_.Unlock();
  if (memory.p == nullptr) return memory;
  ReleaseBehind(map_->TrackerAt(memory.p));
  for (size_t i = 0; i < moves.count; ++i) {
    if (MovePagesIn(moves.from[i], moves.to[i])) memory.dirty = ~uint64_t{0};
  }
  return memory;
}

// A block laid over trackers without pages, while free ones elsewhere that do not fit it hold some,
// would fault in as much again. Moving a tracker's pages costs the kernel one entry of a table.
template <Os System>
void PageHeap<System>::PlanMoves(Tracker* head, Moves* moves) noexcept {
  if (dirty_.load(std::memory_order_relaxed) < Tracker::kGranules) return;
  size_t wanted = 0;
  for (size_t i = 0; i < head->bytes / kTrackerBytes && wanted < Moves::kMost; ++i) {
    Tracker* const t = map_->TrackerAt(head->base + i * kTrackerBytes);
    if (t->dirty_count == 0 && !t->split && (t->moved_in || moved_trackers_ + wanted < kMostMoved))
      moves->to[wanted++] = t;
  }
  if (wanted == 0) return;
  // What the kernel knows of a mapping moves with it: only like to like.
  free_.ForEachDirty([&](Tracker* t) {
    if (t->dirty_count >= Tracker::kGranules / 2 && !t->split &&
        t->huge_allowed == head->huge_allowed)
      moves->from[moves->count++] = t;
    return moves->count < wanted;
  });
  for (size_t i = 0; i < moves->count; ++i) {
    Tracker* const from = moves->from[i];
    free_.TakeAt(from, 1);
    from->state = State::kLargeBody;
    NoteTaken(from, false);
    Account(Tracker::kGranules, from->UseDirty(0, Tracker::kGranules));
    ++busy_;
  }
}

// False if the system refused; then they stay where they were.
template <Os System>
bool PageHeap<System>::MovePagesIn(Tracker* from, Tracker* to) noexcept {
  const bool moved = System::MovePages(from->base, kTrackerBytes, to->base) == kTrackerBytes;
  Locked hold(mutex_);
  --busy_;
  if (moved) {
    moved_trackers_ += to->moved_in ? 0 : 1;
    to->moved_in = true;
  }
  from->Unuse(0, Tracker::kGranules);
  if (!moved) from->MarkDirty(0, Tracker::kGranules);
  Unaccount(Tracker::kGranules, moved ? 0 : Tracker::kGranules);
  BecomeFree(from, 1);
  return moved;
}

template <Os System>
Memory PageHeap<System>::LayBlock(size_t bytes, size_t alignment, size_t reserve,
                                  Moves* moves) noexcept {
  if (Exceeds(DivideUp(bytes, kGranule))) return {};
  size_t count = DivideUp(reserve, kTrackerBytes);
  const Fill fill = FillOf(bytes);
  Tracker* head = TakeTrackers(count, alignment, fill);
  if (head == nullptr) {
    count = DivideUp(bytes, kTrackerBytes);
    do head = TakeTrackers(count, alignment, fill);
    while (head == nullptr && AwaitBusy());
  }
  if (head == nullptr) return {};
  for (size_t i = 0; i < count; ++i) {
    Tracker* const t = map_->TrackerAt(head->base + i * kTrackerBytes);
    t->state = State::kLargeBody;
    NoteTaken(t, false);
  }
  head->state = State::kLargeHead;
  head->trackers = static_cast<uint32_t>(count);
  head->bytes = RoundUp(bytes, page_);
  SetRequested(head, bytes);
  ++groups_[LargeGroupOf(head->bytes)].made;
  large_allocations_.store(large_allocations_.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
  PlanMoves(head, moves);
  Memory memory{head->base};
  UseBlock(head, 0, DivideUp(head->bytes, kGranule), &memory);
  return memory;
}

template <Os System>
void PageHeap<System>::FreeLarge(void* p, bool at_once) noexcept {
  Tracker* const head = map_->TrackerAt(p);
  const size_t granules = DivideUp(head->bytes, kGranule);
  const bool gone = at_once && System::Release(p, granules * kGranule);
  Locked hold(mutex_);
  AwaitTail(head);
  if (gone) released_.fetch_add(granules, std::memory_order_relaxed);
  UnuseBlock(head, 0, granules, !gone);
  const size_t count = head->trackers;
  ++groups_[LargeGroupOf(head->bytes)].gone;
  head->bytes = 0;
  SetRequested(head, 0);
  large_frees_.store(large_frees_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  BecomeFree(head, count);
}

template <Os System>
bool PageHeap<System>::ResizeLarge(void* p, size_t bytes) noexcept {
  if (bytes > kMaxRequest - kTrackerBytes) return false;
  Tracker* const head = map_->TrackerAt(p);
  bytes = RoundUp(bytes, page_);
  const bool shrinks = bytes < head->bytes;
  {
    Locked hold(mutex_);
    AwaitTail(head);
    if (!shrinks && Exceeds(DivideUp(bytes - head->bytes, kGranule))) return false;
    if (!shrinks && !ExtendBlock(head, DivideUp(bytes, kTrackerBytes))) return false;
    const size_t before = DivideUp(head->bytes, kGranule);
    const size_t after = DivideUp(bytes, kGranule);
    if (after > before) UseBlock(head, before, after, nullptr);
    if (after < before) UnuseBlock(head, after, before, true);
    ++groups_[LargeGroupOf(head->bytes)].gone;
    ++groups_[LargeGroupOf(bytes)].made;
    head->bytes = bytes;
    SetRequested(head, bytes);
    if (shrinks) TrimBlock(head, DivideUp(bytes, kTrackerBytes));
  }
  ReleaseBehind(head);  // a block that grew may have taken a dirty tracker, and not all of it
  return true;
}

template <Os System>
bool PageHeap<System>::ExtendBlock(Tracker* head, size_t trackers) noexcept {
  if (trackers <= head->trackers) return true;
  Tracker* const behind = map_->TrackerAt(head->base + head->trackers * kTrackerBytes);
  const size_t more = trackers - head->trackers;
  if (!free_.TakeAt(behind, more)) return false;
  for (size_t i = 0; i < more; ++i) {
    Tracker* const t = map_->TrackerAt(behind->base + i * kTrackerBytes);
    t->state = State::kLargeBody;
    NoteTaken(t, false);
  }
  head->trackers = static_cast<uint32_t>(trackers);
  return true;
}

template <Os System>
void PageHeap<System>::TrimBlock(Tracker* head, size_t trackers) noexcept {
  if (trackers == head->trackers) return;
  const size_t count = head->trackers - trackers;
  head->trackers = static_cast<uint32_t>(trackers);
  BecomeFree(map_->TrackerAt(head->base + trackers * kTrackerBytes), count);
}

template <Os System>
size_t PageHeap<System>::MoveLarge(void* from, void* to) noexcept {
  return System::MovePages(from, LargeSize(from), to);
}

template <Os System>
size_t PageHeap<System>::LargeSize(const void* p) const noexcept {
  const Tracker* const t = map_->TrackerAt(p);
  return t != nullptr && t->state == State::kLargeHead && t->base == p ? t->bytes : 0;
}

}  // namespace granary
