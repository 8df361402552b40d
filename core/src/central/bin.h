// The slabs of one small class. The fullest slab with a free object serves first, so that the
// emptier slabs become empty and their pages can be released. Not thread-safe: Central holds the
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hint.h"
#include "central/slab.h"

namespace granary {

class Bin {
 public:
  // The fullest slab with a free object; nullptr if there is none.
  Slab* Fullest() const {
    return nonempty_ == 0 ? nullptr : lists_[std::countr_zero(nonempty_)].first();
  }

  void Add(Slab* s, unsigned page_shift) {
    ++slabs_;
    clean_bytes_ = clean_bytes_ + s->CleanBytes(page_shift);
    free_objects_ = free_objects_ + s->free;
    Insert(s);
  }

  void Remove(Slab* s, unsigned page_shift) {
    --slabs_;
    clean_bytes_ = clean_bytes_ - s->CleanBytes(page_shift);
    free_objects_ = free_objects_ - s->free;
    Unlink(s);
    Unqueue(s);
  }

  // Allocates up to n objects of s; returns their number.
  size_t Allocate(Slab* s, void** to, size_t n, unsigned page_shift) {
    const size_t clean = s->CleanBytes(page_shift);
    const size_t count = s->Allocate(to, n, page_shift);
    if (clean != 0) clean_bytes_ = clean_bytes_ - (clean - s->CleanBytes(page_shift));
    free_objects_ = free_objects_ - count;
    Relink(s);
    return count;
  }

  // Call it after Slab::Free freed `count` objects of s.
  void Freed(Slab* s, size_t count) {
    free_objects_ = free_objects_ + count;
    Relink(s);
    if (!s->queued) Enqueue(s);
  }

  // Hide makes the objects on `pages` unavailable; all of them must be free. Unhide makes them
  // available again. Hide returns the number of objects.
  size_t Hide(Slab* s, uint64_t pages, unsigned page_shift) {
    const size_t hidden = ForObjectsOn(s, pages, page_shift, ClearBits);
    s->free = static_cast<uint16_t>(s->free - hidden);
    free_objects_ = free_objects_ - hidden;
    Relink(s);
    return hidden;
  }
  void Unhide(Slab* s, uint64_t pages, unsigned page_shift) {
    const size_t shown = ForObjectsOn(s, pages, page_shift, SetBits);
    s->free = static_cast<uint16_t>(s->free + shown);
    free_objects_ = free_objects_ + shown;
    s->hint = 0;
    Relink(s);
  }

  // Call it after `pages` were released to the system.
  void MarkClean(Slab* s, uint64_t pages, unsigned page_shift) {
    const size_t before = s->CleanBytes(page_shift);
    s->clean |= pages;
    clean_bytes_ = clean_bytes_ + (s->CleanBytes(page_shift) - before);
  }

  // The queue holds the slabs whose free pages wait for an inspection. NextToInspect removes the
  // first slab and returns it; nullptr if the queue is empty.
  Slab* NextToInspect() {
    Slab* s = queue_.first();
    if (s != nullptr) Unqueue(s);
    return s;
  }
  void Enqueue(Slab* s) {
    s->queued = true;
    queue_length_ = queue_length_ + 1;
    queue_.PushBack(s);
  }
  size_t queue_length() const { return queue_length_; }

  size_t slabs() const { return slabs_; }
  size_t free_objects() const { return free_objects_; }
  size_t partial_slabs() const { return partial_; }
  size_t clean_bytes() const { return clean_bytes_; }

  void Verify() const {
    size_t free = 0, partial = 0;
    for (size_t l = 0; l < kLists; ++l) {
      GRANARY_CHECK((lists_[l].first() != nullptr) == (((nonempty_ >> l) & 1) != 0));
      for (Slab* s = lists_[l].first(); s != nullptr; s = s->by_fill.next) {
        s->Verify();
        GRANARY_CHECK(s->list == l && ListOf(*s) == l);
        free += s->free;
        ++partial;
      }
    }
    GRANARY_CHECK(free == free_objects_ && partial == partial_ && partial <= slabs_);
  }

 private:
  friend struct DescriptorRows;
  static constexpr size_t kLists = Slab::kLists;
  static constexpr uint8_t kFull = 255;

  static uint8_t ListOf(const Slab& s) { return s.free == 0 ? kFull : s.ListByFree(); }

  void Insert(Slab* s) {
    s->list = ListOf(*s);
    if (s->list == kFull) return;
    lists_[s->list].Push(s);
    ++partial_;
    nonempty_ |= 1u << s->list;
  }

  void Unlink(Slab* s) {
    if (s->list == kFull) return;
    lists_[s->list].Remove(s);
    --partial_;
    if (lists_[s->list].first() == nullptr) nonempty_ &= ~(1u << s->list);
  }

  void Relink(Slab* s) {
    if (ListOf(*s) == s->list) return;
    Unlink(s);
    Insert(s);
  }

  void Unqueue(Slab* s) {
    if (!s->queued) return;
    s->queued = false;
    queue_length_ = queue_length_ - 1;
    queue_.Remove(s);
  }

  template <class Change>
  static size_t ForObjectsOn(Slab* s, uint64_t pages, unsigned page_shift, Change change) {
    size_t before = CountBits(s->bits, 0, s->objects);
    for (uint64_t rest = pages; rest != 0; rest &= rest - 1) {
      const BitRun run = s->ObjectsOn(static_cast<size_t>(std::countr_zero(rest)), page_shift);
      change(s->bits, run.first, run.count);
    }
    const size_t after = CountBits(s->bits, 0, s->objects);
    return before > after ? before - after : after - before;
  }

  SlabStack lists_[kLists];
  SlabList<&Slab::in_queue> queue_;
  uint32_t nonempty_ = 0;
  uint32_t slabs_ = 0;
  uint32_t partial_ = 0;  // slabs with a free object
  Hint<uint32_t> queue_length_;
  Hint<size_t> free_objects_;
  Hint<size_t> clean_bytes_;  // of all slabs
};

}  // namespace granary
