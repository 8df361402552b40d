// The descriptor of a slab: one span cut into objects of one class. It is apart from the objects,
// so a free object is never written. A set bit means a free object. Pages without an object in use
// can be released to the system while the slab is in use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/check.h"
#include "base/units.h"
#include "sizes/size_classes.h"

namespace granary {

struct alignas(kCacheLine) Slab {
  static constexpr size_t kMaxPages = 64;  // 256 KiB of 4 KiB pages
  // A bin has so many lists of partial slabs, by the number of free objects.
  static constexpr size_t kLists = 16;
  static constexpr unsigned kListStepShift = 28;

  struct Link {
    Slab* next = nullptr;
    Slab* prev = nullptr;
  };

  Link by_fill;   // of the list of about equally full slabs
  Link in_queue;  // of the slabs that wait for an inspection of their pages
  char* base = nullptr;
  uint64_t clean = 0;  // pages that were never touched or were released
  uint64_t idle = 0;   // pages that were free at the last inspection and not used since
  uint16_t free = 0;   // objects
  uint16_t objects = 0;
  uint16_t hint = 0;  // all words of `bits` before this index are zero
  uint8_t size_class = 0;
  uint8_t list = 0;  // the index of its list in Bin
  bool queued = false;
  uint32_t list_step = 0;  // lists for each free object, in units of 2^-kListStepShift
  uint64_t bits[];         // one bit for each object; set = free

  static size_t Words(SizeClass c) { return DivideUp(kSlabShape[c].objects, 64); }
  static size_t Bytes(SizeClass c) { return sizeof(Slab) + Words(c) * sizeof(uint64_t); }

  // `count` objects from `at` on, at most those of the shape.
  void Init(char* at, SizeClass c, uint64_t clean_pages, size_t count) {
    base = at;
    size_class = static_cast<uint8_t>(c);
    objects = free = static_cast<uint16_t>(count);
    clean = clean_pages;
    // One object needs no step, and its step would not fit.
    const uint64_t lists = uint64_t{kLists} << kListStepShift;
    list_step = count > 1 ? static_cast<uint32_t>(DivideUp(lists, count)) : 0;
    for (size_t w = 0; w < Words(c); ++w) bits[w] = 0;
    SetBits(bits, 0, objects);
  }

  char* Object(size_t index) const { return base + index * kClassSize[size_class]; }

  // The index of the object that begins at p, any address; kNoObject, which is more than any index,
  // if none of this slab does.
  static constexpr size_t kNoObject = ~size_t{0};
  size_t IndexOf(const void* p) const {
    const size_t size = kClassSize[size_class];
    const size_t offset = static_cast<size_t>(static_cast<const char*>(p) - base);
    if (offset >= objects * size) return kNoObject;
    const size_t index = ObjectAt(size_class, offset);
    return index * size == offset ? index : kNoObject;
  }

  bool IsFree(size_t index) const {
    return ((__atomic_load_n(&bits[index / 64], __ATOMIC_RELAXED) >> (index % 64)) & 1) != 0;
  }

  // The list of a slab with free objects: (free - 1) * kLists / objects without a division.
  uint8_t ListByFree() const {
    return static_cast<uint8_t>((uint64_t{free - 1u} * list_step) >> kListStepShift);
  }

  // The pages of objects [first, first+count).
  uint64_t PagesOf(size_t first, size_t count, unsigned page_shift) const {
    const size_t size = kClassSize[size_class];
    const size_t begin = (first * size) >> page_shift;
    const size_t end = (((first + count) * size - 1) >> page_shift) + 1;
    return MaskOf(static_cast<unsigned>(begin), static_cast<unsigned>(end - begin));
  }

  // The objects that touch page `index`.
  BitRun ObjectsOn(size_t index, unsigned page_shift) const {
    const size_t size = kClassSize[size_class];
    const size_t first = (index << page_shift) / size;
    size_t end = ((((index + 1) << page_shift) - 1) / size) + 1;
    if (end > objects) end = objects;
    return {first, end > first ? end - first : 0};
  }

  // Allocates up to n objects, lowest address first, and marks their pages used; returns the number
  // of objects.
  size_t Allocate(void** to, size_t n, unsigned page_shift) {
    const size_t words = Words(size_class), size = kClassSize[size_class];
    size_t count = 0;
    for (size_t w = hint; w < words && count < n; ++w) {
      const uint64_t before = bits[w];
      char* const first = base + w * 64 * size;
      uint64_t word = before;
      if (IsOneRun(word)) {
        const auto start = static_cast<unsigned>(std::countr_zero(word));
        const size_t run = 64u - static_cast<unsigned>(std::countl_zero(word)) - start;
        const size_t take = run < n - count ? run : n - count;
        for (size_t i = 0; i < take; ++i) to[count++] = first + (start + i) * size;
        word &= ~MaskOf(start, static_cast<unsigned>(take));
      } else {
        for (; word != 0 && count < n; word &= word - 1) {
          to[count++] = first + static_cast<size_t>(std::countr_zero(word)) * size;
        }
      }
      bits[w] = word;
      hint = static_cast<uint16_t>(w);
      if ((clean | idle) != 0) MarkUsed(w, before ^ word, page_shift);
    }
    free = static_cast<uint16_t>(free - count);
    return count;
  }

  bool Holds(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - base) < kSlabShape[size_class].bytes;
  }

  // Frees objects up to the first address that is not an object in use of this slab; returns the
  // number of freed objects. Consecutive objects of one word of `bits` need one store.
  size_t Free(void* const* from, size_t n) {
    size_t count = 0;
    for (size_t index; count < n && (index = IndexOf(from[count])) != kNoObject;) {
      const size_t w = index / 64;
      const uint64_t before = bits[w];
      uint64_t word = before;
      do {
        const uint64_t bit = uint64_t{1} << (index % 64);
        if ((word & bit) != 0) break;
        word |= bit;
        ++count;
      } while (count < n && (index = IndexOf(from[count])) / 64 == w);
      if (word == before) break;
      bits[w] = word;
      if (w < hint) hint = static_cast<uint16_t>(w);
    }
    free = static_cast<uint16_t>(free + count);
    return count;
  }

  // The bytes of the clean pages.
  size_t CleanBytes(unsigned page_shift) const {
    if (clean == 0) return 0;
    const size_t pages = kSlabShape[size_class].bytes >> page_shift;
    const uint64_t inside = clean & MaskOf(0, static_cast<unsigned>(pages));
    return static_cast<size_t>(std::popcount(inside)) << page_shift;
  }

  // The pages that are not clean and hold no object in use, not even in part.
  uint64_t FreePages(unsigned page_shift) const {
    const size_t pages =
        DivideUp(objects * size_t{kClassSize[size_class]}, size_t{1} << page_shift);
    uint64_t result = 0;
    for (size_t p = 0; p < pages; ++p) {
      if ((clean >> p) & 1) continue;
      const BitRun run = ObjectsOn(p, page_shift);
      if (run.count == 0 || AllSet(bits, run.first, run.count)) result |= uint64_t{1} << p;
    }
    return result;
  }

  void Verify() const {
    GRANARY_CHECK(objects <= kSlabShape[size_class].objects);
    GRANARY_CHECK(CountBits(bits, 0, objects) == free);
    for (size_t w = 0; w < hint; ++w) GRANARY_CHECK(bits[w] == 0);
  }

 private:
  // Whether the bits that are set are consecutive: true for a slab that no object came back to.
  static bool IsOneRun(uint64_t word) { return word != 0 && (word & (word + (word & -word))) == 0; }

  // The objects with a bit in `allocated`, which is of word w: marks their pages neither clean nor
  // idle.
  void MarkUsed(size_t w, uint64_t allocated, unsigned page_shift) {
    uint64_t pages = 0;
    while (allocated != 0) {
      const auto first = static_cast<unsigned>(std::countr_zero(allocated));
      const auto count = static_cast<unsigned>(std::countr_one(allocated >> first));
      pages |= PagesOf(w * 64 + first, count, page_shift);
      allocated &= ~MaskOf(first, count);
    }
    clean &= ~pages;
    idle &= ~pages;
  }
};

// A list of about equally full slabs, last in, first out. It does not own them. It has one word,
// because there are many such lists.
class SlabStack {
 public:
  Slab* first() const { return first_; }

  void Push(Slab* s) {
    s->by_fill = {first_, nullptr};
    if (first_ != nullptr) first_->by_fill.prev = s;
    first_ = s;
  }

  void Remove(Slab* s) {
    const Slab::Link link = s->by_fill;
    (link.prev != nullptr ? link.prev->by_fill.next : first_) = link.next;
    if (link.next != nullptr) link.next->by_fill.prev = link.prev;
    s->by_fill = {};
  }

 private:
  Slab* first_ = nullptr;
};

// A first-in, first-out list of slabs through one of their links. It does not own them.
template <Slab::Link Slab::*kLink>
class SlabList {
 public:
  Slab* first() const { return first_; }

  void PushBack(Slab* s) {
    (s->*kLink) = {nullptr, last_};
    (last_ != nullptr ? (last_->*kLink).next : first_) = s;
    last_ = s;
  }

  void Remove(Slab* s) {
    const Slab::Link link = s->*kLink;
    (link.prev != nullptr ? (link.prev->*kLink).next : first_) = link.next;
    (link.next != nullptr ? (link.next->*kLink).prev : last_) = link.prev;
    (s->*kLink) = {};
  }

 private:
  Slab* first_ = nullptr;
  Slab* last_ = nullptr;
};

}  // namespace granary
