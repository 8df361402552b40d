// Reserves address space in chunks, without access, and commits it in steps as the heap grows.
// Committed memory becomes trackers. A process that locks its memory, or that the kernel charges
// for writable address space (vm.overcommit_memory=2), pays for little more than it uses.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "pages/huge_pages.h"
#include "pages/page_core.h"
#include "pages/room.h"
#include "pages/transit.h"

namespace granary {

template <Os System>
class AddressSpace {
 public:
  struct Chunk {
    Chunk* next;
    char* base;
    size_t trackers;  // committed
    Tracker* rows;    // the trackers of the chunk
    size_t room;      // number of rows
    size_t reserved;  // number of trackers with address space
    bool huge;        // whether these trackers may have huge pages
  };

  void Bind(PageCore<System>& core, Transit<System>& transit, HugePages<System>& huge) {
    core_ = &core;
    transit_ = &transit;
    huge_ = &huge;
  }

  // All but Unmap* is called with the lock. Removes `count` consecutive trackers from the free
  // runs; the caller sets their state. nullptr if the system refuses. May release the lock for a
  // moment.
  Tracker* Take(size_t count, size_t alignment, Density density) noexcept {
    if (alignment < kTrackerBytes) alignment = kTrackerBytes;
    Tracker* const t = TakeFree(count, alignment, density);
    if (t != nullptr) return t;
    // While this thread commits memory, other threads may take the free trackers that the request
    // needs, or return some.
    for (bool grown = true; grown;) {
      grown = Grow(count + alignment / kTrackerBytes - 1, density);
      Tracker* const first = core_->free.Take(count, alignment);
      if (first != nullptr) return first;
    }
    return nullptr;
  }

  // Takes free memory only. It may take memory of the other page size where that is free of cost:
  // small pages always are, huge pages are if they are resident already.
  Tracker* TakeFree(size_t count, size_t alignment, Density density) noexcept {
    const bool dense = density == Density::kDense;
    FreeRuns& free = core_->free;
    Tracker* const t = free.Take(count, alignment, dense);
    if (t != nullptr) return t;
    if (dense) return free.Take(count, alignment, false);
    return free.Take(count, alignment, true, [](const Tracker* first) {
      return first->dirty_count >= Tracker::kGranules / 2;
    });
  }

  // Commits reserved address space after a block, starting at `from`, up to `count` trackers.
  GRANARY_COLD void CommitAfter(const char* from, size_t count) noexcept {
    for (Chunk* chunk = chunks_; chunk != nullptr && !growing_; chunk = chunk->next) {
      if (from <= chunk->base || from > EndOf(*chunk)) continue;
      const size_t end = static_cast<size_t>(from - chunk->base) / kTrackerBytes + count;
      if (end > chunk->trackers)
        Extend(chunk, (end < chunk->reserved ? end : chunk->reserved) - chunk->trackers);
      return;
    }
  }
  // Commits more memory for huge pages; false if none is reserved.
  GRANARY_COLD bool CommitHuge() noexcept {
    Chunk* chunk = chunks_;
    while (chunk != nullptr && !(chunk->huge && chunk->reserved > chunk->trackers)) {
      chunk = chunk->next;
    }
    return chunk != nullptr && !growing_ && Extend(chunk, 1);
  }

  // Visits the next `most` trackers, chunk by chunk and in a circle, and returns one with dirty
  // granules beside used ones.
  Tracker* NextShared(size_t most) noexcept {
    for (size_t seen = 0; seen < most && chunks_ != nullptr; ++seen) {
      if (cursor_chunk_ == nullptr || cursor_ >= cursor_chunk_->trackers) {
        cursor_chunk_ = cursor_chunk_ == nullptr || cursor_chunk_->next == nullptr
                            ? chunks_
                            : cursor_chunk_->next;
        cursor_ = 0;
        continue;
      }
      Tracker* const t = &cursor_chunk_->rows[cursor_];
      if (t->dirty_count > 0 && t->used_count > 0) return t;
      ++cursor_;
    }
    return nullptr;
  }
  // The number of trackers that NextShared visits in one circle.
  size_t RoundOfShared() const {
    return 2 * (core_->figures.mapped() / Tracker::kGranules) + kMaxChunks;
  }

  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (Chunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next) {
      for (size_t i = 0; i < chunk->trackers; ++i) visit(&chunk->rows[i]);
    }
  }

  // Unmaps chunks without objects and pages; returns the number of bytes. Calls forget(tracker) for
  // each of their trackers.
  template <class Forget>
  GRANARY_COLD size_t UnmapIdle(Forget&& forget) noexcept {
    size_t bytes = 0;
    while (Chunk* const chunk = TakeIdle(forget)) {
      System::Unmap(chunk->base, chunk->reserved * kTrackerBytes);
      bytes += chunk->trackers * kTrackerBytes;
      Locked hold(core_->mutex);
      chunk->next = vacant_;
      vacant_ = chunk;
    }
    return bytes;
  }

  // In the child of a fork: the thread that committed memory does not exist there.
  void ForgetGrowth() { growing_ = false; }

 private:
  friend struct DescriptorRows;
  static constexpr size_t kMaxChunk = kGiB;
  static constexpr size_t kMaxChunks = 4096;  // a request for more fails
  static constexpr size_t kLeastCommit = 4 * kMiB, kMostCommit = 64 * kMiB;

  // The smallest reservation; a system may define a smaller one.
  static constexpr size_t FirstChunk() {
    if constexpr (requires { System::kFirstChunk; }) {
      return System::kFirstChunk;
    } else {
      return 64 * kMiB;
    }
  }

  // False if nothing was committed: the system refuses, or another thread is committing memory.
  GRANARY_NOINLINE bool Grow(size_t trackers, Density density) noexcept {
    if (growing_ || trackers > kMaxRequest / kTrackerBytes) return false;
    const bool huge = huge_->Allows(core_->figures.mapped_bytes(), density);
    Chunk* chunk = chunks_;
    while (chunk != nullptr && (chunk->huge != huge || MissingIn(*chunk, trackers) == 0)) {
      chunk = chunk->next;
    }
    if (chunk == nullptr) chunk = Reserve(trackers, huge);
    return chunk != nullptr && Extend(chunk, MissingIn(*chunk, trackers));
  }

  // The number of trackers to commit until the chunk ends with `trackers` free ones; 0 if the chunk
  // has no space for them.
  size_t MissingIn(const Chunk& chunk, size_t trackers) const noexcept {
    const size_t left = chunk.reserved - chunk.trackers;
    if (left == 0) return 0;
    const size_t free = chunk.trackers > 0 ? core_->free.CountBefore(EndOf(chunk)) : 0;
    const size_t missing = trackers > free ? trackers - free : 1;
    return missing <= left ? missing : 0;
  }

  // Commits `least` trackers or a whole step of growth; false if the system refuses.
  GRANARY_NOINLINE bool Extend(Chunk* chunk, size_t least) noexcept {
    if (least == 0) return false;
    growing_ = true;
    size_t count = CommitStep(*chunk, least);
    bool done = Commit(chunk, count);
    while (!done && count > least) {
      count = count / 2 > least ? count / 2 : least;
      done = Commit(chunk, count);
    }
    growing_ = false;
    return done;
  }

  static char* EndOf(const Chunk& chunk) noexcept {
    return chunk.base + chunk.trackers * kTrackerBytes;
  }

  size_t CommitStep(const Chunk& chunk, size_t least) const noexcept {
    size_t step = core_->figures.mapped_bytes() / 16;
    step = step < kLeastCommit ? kLeastCommit : step > kMostCommit ? kMostCommit : step;
    const size_t left = chunk.reserved - chunk.trackers;
    const size_t count = step / kTrackerBytes > least ? step / kTrackerBytes : least;
    return count < left ? count : left;
  }

  // Commits the next `count` trackers of the chunk and adds them to the free runs; false if the
  // system refuses.
  bool Commit(Chunk* chunk, size_t count) noexcept {
    // The metadata of slabs of the smallest objects takes a hundredth of their size. Metadata of
    // one size is not reused for another, so three times as much is reserved.
    const size_t bytes = count * kTrackerBytes;
    if (!core_->metadata->Reserve(bytes / 33)) return false;
    Tracker* const first = &chunk->rows[chunk->trackers];
    const bool slow = huge_->IsSlow();
    for (size_t i = 0; i < count; ++i) {
      first[i].base = chunk->base + (chunk->trackers + i) * kTrackerBytes;
      first[i].huge_allowed = chunk->huge;
      core_->map->SetTracker(first[i].base, &first[i]);
      if (slow) huge_->NoteSplit(&first[i]);
    }
    const bool first_of_all = core_->figures.mapped() == 0;
    chunk->trackers += count;
    core_->figures.Map(count * Tracker::kGranules);
    transit_->Take(first, count);
    char* const base = first->base;
    bool done, guarded;
    {
      typename Transit<System>::Unlocked out(*transit_);
      done = System::Commit(base, bytes);
      if (done && !first_of_all && !HasRoom<System>()) {
        System::Decommit(base, bytes);
        done = false;
      }
      if (done && slow && chunk->huge) System::AllowHuge(base, bytes, false);
      guarded = done && core_->guards && System::Guard(base, bytes);
    }
    for (size_t i = 0; guarded && i < count; ++i) first[i].guarded = true;
    if (done) {
      transit_->Return(first, count);
    } else {
      transit_->Drop();
      chunk->trackers -= count;
      core_->figures.Unmap(count * Tracker::kGranules);
      Erase(first, count);
    }
    return done;
  }

  void Erase(Tracker* first, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) {
      huge_->NoteWhole(&first[i]);
      core_->map->SetTracker(first[i].base, nullptr);
    }
    __builtin_memset(static_cast<void*>(first), 0, count * sizeof(Tracker));
  }

  // Reserves an eighth of the heap at a time, which limits the number of mappings. If the system
  // refuses, reserves less, down to the need.
  GRANARY_NOINLINE Chunk* Reserve(size_t trackers, bool huge) noexcept {
    const size_t need = trackers * kTrackerBytes;
    size_t want = RoundUp(core_->figures.mapped_bytes() / 8, kTrackerBytes);
    if (want < FirstChunk()) want = FirstChunk();
    if (want > kMaxChunk) want = kMaxChunk;
    if (want < need) want = need;
    const size_t wish = want;
    for (;;) {
      // Mappings grow down. The address is a hint; for a huge request it is below zero.
      void* const hint =
          chunks_ == nullptr ? nullptr : reinterpret_cast<void*>(AddressOf(chunks_->base) - want);
      char* const base = static_cast<char*>(System::Reserve(want, kTrackerBytes, hint));
      if (base != nullptr) {
        const size_t closed = want > need ? ClosedAtFirst() : 0;
        const bool alone = want == wish && chunks_ == nullptr;
        Chunk* const chunk =
            alone || HasRoom<System>() ? Describe(base + closed, want - closed, huge) : nullptr;
        if (chunk != nullptr) return chunk;
        System::Unmap(base, want);
      }
      if (want == need) return nullptr;
      want = want / 2 < need ? need : RoundUp(want / 2, kTrackerBytes);
    }
  }

  // The bytes at the start of the first reservation that never become accessible, so that a program
  // that writes before the heap of a small process ends.
  size_t ClosedAtFirst() noexcept {
    if constexpr (requires { System::ReservesWithoutAccess(); }) {
      return chunks_ == nullptr && vacant_ == nullptr && System::ReservesWithoutAccess()
                 ? kTrackerBytes
                 : 0;
    }
    return 0;
  }

  Chunk* Describe(char* base, size_t bytes, bool huge) noexcept {
    const size_t count = bytes / kTrackerBytes;
    if (!core_->map->template Cover<System>(base, bytes)) return nullptr;
    Chunk* const chunk = ChunkFor(count);
    if (chunk == nullptr) return nullptr;
    System::AllowHuge(base, bytes, huge);
    chunk->base = base;
    chunk->trackers = 0;
    chunk->reserved = count;
    chunk->huge = huge;
    chunk->next = chunks_;
    chunks_ = chunk;
    return chunk;
  }

  // A descriptor with rows for `count` trackers: of a chunk that was unmapped, or a new one.
  // nullptr if the system refuses.
  Chunk* ChunkFor(size_t trackers) noexcept {
    for (Chunk** link = &vacant_; *link != nullptr; link = &(*link)->next) {
      Chunk* const chunk = *link;
      if (chunk->room < trackers) continue;
      *link = chunk->next;
      return chunk;
    }
    auto* const chunk = static_cast<Chunk*>(core_->metadata->Allocate(sizeof(Chunk)));
    auto* const rows = static_cast<Tracker*>(core_->metadata->Allocate(trackers * sizeof(Tracker)));
    if (chunk == nullptr || rows == nullptr) return nullptr;
    chunk->rows = rows;
    chunk->room = trackers;
    return chunk;
  }

  // No tracker of the chunk is in use or in transit, or has a page.
  static bool IsIdle(const Chunk& chunk) noexcept {
    for (size_t i = 0; i < chunk.trackers; ++i) {
      const Tracker& t = chunk.rows[i];
      if (t.state != Tracker::State::kFree || t.dirty_count != 0) return false;
    }
    return true;
  }

  // Removes an idle chunk from the list, the free runs and the map; nullptr if there is none.
  template <class Forget>
  Chunk* TakeIdle(Forget&& forget) noexcept {
    Locked hold(core_->mutex);
    if (growing_) return nullptr;
    Chunk** link = &chunks_;
    while (*link != nullptr && !IsIdle(**link)) link = &(*link)->next;
    Chunk* const chunk = *link;
    if (chunk == nullptr) return nullptr;
    if (chunk->trackers > 0) core_->free.TakeAt(chunk->rows, chunk->trackers);
    *link = chunk->next;
    if (cursor_chunk_ == chunk) cursor_chunk_ = nullptr;
    core_->figures.Unmap(chunk->trackers * Tracker::kGranules);
    for (size_t i = 0; i < chunk->trackers; ++i) forget(&chunk->rows[i]);
    Erase(chunk->rows, chunk->trackers);
    return chunk;
  }

  PageCore<System>* core_ = nullptr;
  Transit<System>* transit_ = nullptr;
  HugePages<System>* huge_ = nullptr;
  Chunk* chunks_ = nullptr;
  Chunk* vacant_ = nullptr;        // descriptors of chunks that were unmapped
  Chunk* cursor_chunk_ = nullptr;  // where NextShared continues
  size_t cursor_ = 0;
  bool growing_ = false;  // a thread is committing memory without the lock
};

}  // namespace granary
