// Spans, and where trackers come from.
#pragma once

#include "pages/pages.h"

namespace granary {

// A tracker with so many free granules in a row, out of its list; nullptr if the system refuses.
template <Os System>
Tracker* PageHeap<System>::TrackerFor(size_t granules, Fill fill) noexcept {
  do {
    if (Tracker* const t = FindSpan(granules, fill); t != nullptr) {
      SpansLike(t).Remove(t);
      return t;
    }
    if (Tracker* const t = TakeTrackers(1, kTrackerBytes, fill); t != nullptr) {
      t->state = State::kSpans;
      NoteTaken(t, true);
      return t;
    }
  } while (AwaitBusy());
  return nullptr;
}

template <Os System>
Memory PageHeap<System>::AllocateSpan(size_t granules, Fill fill) noexcept {
  Locked hold(mutex_);
  if (Exceeds(granules)) return {};
  Tracker* const t = TrackerFor(granules, fill);
  if (t == nullptr) return {};
  const BitRun run = t->BestFit(granules);
  Memory memory{t->Address(run.first)};
  for (size_t i = 0; i < granules && i < 64; ++i) {
    memory.dirty |= uint64_t{AllSet(t->dirty, run.first + i, 1)} << i;
  }
  const size_t dirty = t->UseDirty(run.first, granules);
  SpansLike(t).Insert(t);
  Account(granules, dirty);
  grown_.store(grown_.load(std::memory_order_relaxed) + granules - dirty,
               std::memory_order_relaxed);
  return memory;
}

template <Os System>
void PageHeap<System>::FreeSpan(void* p, size_t granules, uint64_t dirty) noexcept {
  Locked hold(mutex_);
  Tracker* const t = map_->TrackerAt(p);
  const size_t first = static_cast<size_t>(static_cast<char*>(p) - t->base) / kGranule;
  GRANARY_DCHECK(AllSet(t->used, first, granules));
  SpansLike(t).Remove(t);
  t->Unuse(first, granules);
  size_t held = 0;
  for (size_t i = 0; i < granules; ++i) {
    if (i < 64 && ((dirty >> i) & 1) == 0) continue;
    t->MarkDirty(first + i, 1);
    ++held;
  }
  Unaccount(granules, held);
  if (t->used_count == 0) {
    CountFilled(t);
    BecomeFree(t, 1);
  } else {
    SpansLike(t).Insert(t);
  }
}

template <Os System>
void PageHeap<System>::BecomeFree(Tracker* t, size_t count) noexcept {
  free_.Add(t, count);
}

// Only under the lock.
template <Os System>
void PageHeap<System>::Raise(std::atomic<size_t>& peak, size_t level) noexcept {
  if (level > peak.load(std::memory_order_relaxed)) peak.store(level, std::memory_order_relaxed);
}

template <Os System>
void PageHeap<System>::Account(size_t used_more, size_t dirty_less) noexcept {
  const size_t used = used_.load(std::memory_order_relaxed) + used_more;
  used_.store(used, std::memory_order_relaxed);
  Raise(used_peak_, used);
  const size_t dirty = dirty_.load(std::memory_order_relaxed) - dirty_less;
  dirty_.store(dirty, std::memory_order_relaxed);
  Raise(held_peak_, used + dirty);
  low_.Note(dirty);
}

template <Os System>
void PageHeap<System>::Unaccount(size_t used_less, size_t dirty_more) noexcept {
  used_.store(used_.load(std::memory_order_relaxed) - used_less, std::memory_order_relaxed);
  const size_t dirty = dirty_.load(std::memory_order_relaxed) + dirty_more;
  dirty_.store(dirty, std::memory_order_relaxed);
  Raise(dirty_peak_, dirty);
}

// Of trackers in use any will do before a fresh one is taken.
template <Os System>
Tracker* PageHeap<System>::FindSpan(size_t granules, Fill fill) noexcept {
  const int like = fill == Fill::kDense ? 1 : 0;
  Tracker* const t = spans_[like].Find(granules);
  return t != nullptr ? t : spans_[1 - like].Find(granules);
}

// Of the free ones, those of the other kind where that costs nothing: small pages always do, huge
// ones where they are resident anyway.
template <Os System>
Tracker* PageHeap<System>::TakeFree(size_t count, size_t alignment, Fill fill) noexcept {
  const bool dense = fill == Fill::kDense;
  Tracker* const t = free_.Take(count, alignment, dense);
  if (t != nullptr) return t;
  if (dense) return free_.Take(count, alignment, false);
  return free_.Take(count, alignment, true, [](const Tracker* first) {
    return first->dirty_count >= Tracker::kGranules / 2;
  });
}

template <Os System>
Tracker* PageHeap<System>::TakeTrackers(size_t count, size_t alignment, Fill fill) noexcept {
  if (alignment < kTrackerBytes) alignment = kTrackerBytes;
  Tracker* const t = TakeFree(count, alignment, fill);
  if (t != nullptr) return t;
  const size_t slack = alignment / kTrackerBytes - 1;
  Grow(count + slack, fill);
  return free_.Take(count, alignment);
}

// Whether a program whose address space runs out could still have a stack for a thread, or the
// like.
template <Os System>
bool PageHeap<System>::LeavesRoom() noexcept {
  constexpr size_t kRoom = 2 * kMiB;
  void* const room = System::Map(kRoom, kMinOsPage, nullptr);
  if (room != nullptr) System::Unmap(room, kRoom);
  return room != nullptr;
}

// Address space grows by an eighth of the heap at a time, so that its mappings stay few; when the
// system refuses that much, by what is needed.
template <Os System>
bool PageHeap<System>::Grow(size_t trackers, Fill fill) noexcept {
  const size_t need = trackers * kTrackerBytes;
  if (need / kTrackerBytes != trackers) return false;
  const size_t mapped = mapped_.load(std::memory_order_relaxed) * kGranule;
  size_t want = RoundUp(mapped / 8, kTrackerBytes);
  if (want < FirstChunk()) want = FirstChunk();
  if (want > kMaxChunk) want = kMaxChunk;
  if (want < need) want = need;
  const size_t wish = want;
  for (;;) {
    // Mappings grow down. A wish only, which a huge request takes below zero.
    void* const hint =
        chunks_ == nullptr ? nullptr : reinterpret_cast<void*>(AddressOf(chunks_->base) - want);
    char* const base = static_cast<char*>(System::Map(want, kTrackerBytes, hint));
    if (base != nullptr && want < wish && !LeavesRoom()) {
      System::Unmap(base, want);
    } else if (base != nullptr) {
      if (AddChunk(base, want, fill)) return true;
      System::Unmap(base, want);
    }
    if (want == need) return false;
    want = want / 2 < need ? need : RoundUp(want / 2, kTrackerBytes);
  }
}

template <Os System>
bool PageHeap<System>::AddChunk(char* base, size_t bytes, Fill fill) noexcept {
  const size_t count = bytes / kTrackerBytes;
  if (!map_->template Cover<System>(base, bytes)) return false;
  // Slabs of the smallest objects need a hundredth of what they describe; pieces of one size
  // do not serve another.
  if (!metadata_->Reserve(bytes / 33)) return false;
  Chunk* const chunk = ChunkFor(count);
  if (chunk == nullptr) return false;
  Tracker* const trackers = chunk->rows;
  const size_t mapped = mapped_.load(std::memory_order_relaxed);
  const bool huge = AllowsHuge(mapped * kGranule, fill);
  const bool slow = HugeIsSlow();
  System::AllowHuge(base, bytes, huge && !slow);
  chunk->base = base;
  chunk->trackers = count;
  chunk->next = chunks_;
  chunks_ = chunk;
  for (size_t i = 0; i < count; ++i) {
    trackers[i].base = base + i * kTrackerBytes;
    trackers[i].huge_allowed = huge;
    map_->SetTracker(trackers[i].base, &trackers[i]);
    if (slow) NoteSplit(&trackers[i]);
    trackers[i].state = State::kLargeBody;  // not free until the whole run is
  }
  mapped_.store(mapped + count * Tracker::kGranules, std::memory_order_relaxed);
  BecomeFree(trackers, count);
  return true;
}

template <Os System>
typename PageHeap<System>::Place PageHeap<System>::PlaceOf(const void* p) noexcept {
  Locked hold(mutex_);
  const Tracker* const t = map_->TrackerAt(p);
  if (t == nullptr) return Place::kOutside;
  const size_t granule = static_cast<size_t>(static_cast<const char*>(p) - t->base) / kGranule;
  return AllSet(t->used, granule, 1) ? Place::kInside : Place::kFree;
}

template <Os System>
PageStats PageHeap<System>::Stats() const noexcept {
  PageStats s;
  s.mapped = mapped_.load(std::memory_order_relaxed) * kGranule;
  s.used = used_bytes();
  s.large = large_.load(std::memory_order_relaxed) * kGranule;
  s.dirty = dirty_bytes();
  s.released = released_.load(std::memory_order_relaxed) * kGranule;
  s.large_requested = large_requested_.load(std::memory_order_relaxed);
  s.large_allocations = large_allocations_.load(std::memory_order_relaxed);
  s.large_frees = large_frees_.load(std::memory_order_relaxed);
  s.used_peak = used_peak_.load(std::memory_order_relaxed) * kGranule;
  s.dirty_peak = dirty_peak_.load(std::memory_order_relaxed) * kGranule;
  s.held_peak = held_peak_.load(std::memory_order_relaxed) * kGranule;
  s.owed = owed_bytes();
  return s;
}

template <Os System>
void PageHeap<System>::ResetPeaks() noexcept {
  Locked hold(mutex_);
  used_peak_.store(used_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  dirty_peak_.store(dirty_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  held_peak_.store(used_.load(std::memory_order_relaxed) + dirty_.load(std::memory_order_relaxed),
                   std::memory_order_relaxed);
}

template <Os System>
void PageHeap<System>::Verify() noexcept {
  Locked hold(mutex_);
  free_.Verify();
  size_t used = 0, dirty = 0;
  int borders = 0;
  for (Chunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next) {
    for (size_t i = 0; i < chunk->trackers; ++i) {
      const Tracker* t = map_->TrackerAt(chunk->base + i * kTrackerBytes);
      t->Verify();
      if (t->state == State::kSpans) GRANARY_CHECK(t->used_count > 0);
      if (t->split) borders += 2 - SplitNeighbours(t);
      used += t->used_count;
      dirty += t->dirty_count;
    }
  }
  GRANARY_CHECK(borders == split_borders_);
  GRANARY_CHECK(used == used_.load());
  GRANARY_CHECK(dirty == dirty_.load());
}

}  // namespace granary
