// Address space that goes back to the system: chunk by chunk, and only where a program wants it
// (option retain). What described a chunk is kept for the next one, as metadata is never unmapped.
#pragma once

#include "pages/pages.h"

namespace granary {

// Called with the lock: no tracker of it is in use, or holds a page, or is out for a moment.
template <Os System>
bool PageHeap<System>::IsIdle(const Chunk& chunk) const noexcept {
  for (size_t i = 0; i < chunk.trackers; ++i) {
    const Tracker& t = chunk.rows[i];
    if (t.state != State::kFree || t.dirty_count != 0) return false;
  }
  return true;
}

// An idle chunk, out of the list, the free runs and the map; nullptr if there is none.
template <Os System>
typename PageHeap<System>::Chunk* PageHeap<System>::TakeIdle() noexcept {
  Locked hold(mutex_);
  Chunk** link = &chunks_;
  while (*link != nullptr && !IsIdle(**link)) link = &(*link)->next;
  Chunk* const chunk = *link;
  if (chunk == nullptr || !free_.TakeAt(chunk->rows, chunk->trackers)) return nullptr;
  *link = chunk->next;
  if (cursor_chunk_ == chunk) cursor_chunk_ = nullptr;
  for (size_t i = 0; i < chunk->trackers; ++i) {
    Tracker& t = chunk->rows[i];
    if (t.moved_in) --moved_trackers_;
    NoteWhole(&t);
    map_->SetTracker(t.base, nullptr);
  }
  __builtin_memset(static_cast<void*>(chunk->rows), 0, chunk->trackers * sizeof(Tracker));
  mapped_.store(mapped_.load(std::memory_order_relaxed) - chunk->trackers * Tracker::kGranules,
                std::memory_order_relaxed);
  return chunk;
}

template <Os System>
size_t PageHeap<System>::UnmapFree() noexcept {
  size_t bytes = 0;
  while (Chunk* const chunk = TakeIdle()) {
    System::Unmap(chunk->base, chunk->trackers * kTrackerBytes);
    bytes += chunk->trackers * kTrackerBytes;
    Locked hold(mutex_);
    chunk->next = vacant_;
    vacant_ = chunk;
  }
  return bytes;
}

// Called with the lock: a description with rows for so many trackers, of a chunk that was unmapped
// or a new one; nullptr when the system refuses.
template <Os System>
typename PageHeap<System>::Chunk* PageHeap<System>::ChunkFor(size_t trackers) noexcept {
  for (Chunk** link = &vacant_; *link != nullptr; link = &(*link)->next) {
    Chunk* const chunk = *link;
    if (chunk->room < trackers) continue;
    *link = chunk->next;
    return chunk;
  }
  auto* const chunk = static_cast<Chunk*>(metadata_->Allocate(sizeof(Chunk)));
  auto* const rows = static_cast<Tracker*>(metadata_->Allocate(trackers * sizeof(Tracker)));
  if (chunk == nullptr || rows == nullptr) return nullptr;
  chunk->rows = rows;
  chunk->room = trackers;
  return chunk;
}

}  // namespace granary
