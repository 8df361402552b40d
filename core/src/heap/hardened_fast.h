// The common calls with option hardened, inlined into the slow paths of malloc and free. What they
// leave to the caller passes all checks again, one by one (heap_hardened.cc).
#pragma once

#include "arch/rseq.h"
#include "hardened/cpu_shelves.h"
#include "hardened/seal.h"
#include "hardened/zeros.h"
#include "heap/internal.h"

namespace granary::heap::hardened {

using granary::hardened::CpuShelves;
using granary::hardened::kSealBytes;
using granary::hardened::seals;
using granary::hardened::Seals;

// Whether option hardened is set and Init is done.
extern constinit bool active;

extern constinit CpuShelves cpu_shelves;
// What is below this offset in a granule can be read: the last page may be the guard of a slab.
extern constinit size_t readable;

// The bits that are zero in the address of every object. In the table of the fast path all bits
// are set (TakeSlowPaths).
inline constexpr auto kZeroBits = MakeZeroBits();

// The same where the seal would be on the last page of a granule, or in another granule than p.
inline bool MayReadSealAtEdge(SizeClass c, const void* p) {
  const Slab* const slab = page_map.SlabAt(p);
  if (!PageMap::IsSlab(slab)) return false;
  const size_t offset = AddressOf(p) - AddressOf(slab->base);
  return offset + kClassSize[c] <= size_t{slab->objects} * kClassSize[c];
}

// Whether the seal of an object at p, an address of class c, can be read: it is not in the guard of
// a slab.
GRANARY_ALWAYS_INLINE bool MayReadSeal(SizeClass c, const void* p) {
  const uintptr_t seal = AddressOf(p) + kClassSize[c] - kSealBytes;
  if ((AddressOf(p) & kZeroBits[c]) != 0) [[unlikely]]
    return false;
  return ((seal ^ AddressOf(p)) < kGranule && seal % kGranule < readable) ||
         MayReadSealAtEdge(c, p);
}

// What the common calls end with where something is due. Each is the last call of its caller.
// Stores p, an object that is zero, in quarantine, and frees the one that leaves.
void Store(SizeClass c, void* p) noexcept;
// Frees p, which left quarantine, to a cache that is full.
void FreeOverflow(SizeClass c, void* p) noexcept;
void* FinishSampled(SizeClass c, void* p, size_t size) noexcept;
[[noreturn]] GRANARY_COLD void DieOfWrite(SizeClass c, const void* p, const char* verb) noexcept;

// Frees the object at p, whose last word is `word`, if it needs no more than the common steps.
template <class Otherwise>
GRANARY_ALWAYS_INLINE void FreeSealed(SizeClass c, char* p, uint64_t word, Otherwise&& otherwise) {
  const size_t room = kClassSize[c];
  const int index = CurrentIndex();
  if (!seals.Fits(p, word) || !Seals::MarginIsWhole(p, room, word) || index < 0 ||
      !CpuShelves::Has(c) || IsAligned(AddressOf(p), kGranule)) [[unlikely]]
    return otherwise();
  const uint64_t before = Seals::WordOf(p - room, room);
  if (before != 0 && !seals.Fits(p - room, before)) [[unlikely]]
    return otherwise();
  granary::hardened::MakeZero(p, room);
  void* out;
  if (!cpu_shelves.Exchange(static_cast<size_t>(index), c, p, &out)) [[unlikely]]
    return Store(c, p);
  if (out == nullptr || arch::Push(c, out)) [[likely]]
    return;
  FreeOverflow(c, out);
}

// Frees p; calls otherwise() instead if the slow path must decide.
template <class Otherwise>
GRANARY_ALWAYS_INLINE void FreeOr(void* p, Otherwise&& otherwise) {
  const SizeClass c = page_map.ClassAt(p);
  if (c - 1 >= kNumSmall - 1 || !MayReadSeal(c, p)) [[unlikely]]
    return otherwise();
  char* const object = static_cast<char*>(p);
  FreeSealed(c, object, Seals::WordOf(object, kClassSize[c]), otherwise);
}

// The same if the object is of `size` bytes.
template <class Otherwise>
GRANARY_ALWAYS_INLINE void FreeSizedOr(void* p, size_t size, Otherwise&& otherwise) {
  const SizeClass c = page_map.ClassAt(p);
  if (c - 1 >= kNumSmall - 1 || !MayReadSeal(c, p)) [[unlikely]]
    return otherwise();
  char* const object = static_cast<char*>(p);
  const uint64_t word = Seals::WordOf(object, kClassSize[c]);
  if (Seals::SizeIn(word, kClassSize[c]) != size) [[unlikely]]
    return otherwise();
  FreeSealed(c, object, word, otherwise);
}

// Makes p, a free object of class c, an object of `size` bytes.
GRANARY_ALWAYS_INLINE void* Finish(SizeClass c, void* p, size_t size) {
  char* const object = static_cast<char*>(p);
  if (!granary::hardened::IsZero(object, kClassSize[c])) [[unlikely]]
    DieOfWrite(c, p, "malloc");
  seals.CloseFree(object, size, kClassSize[c]);
  return p;
}

// An object of `size` bytes; otherwise() if the slow path must decide.
template <class Otherwise>
GRANARY_ALWAYS_INLINE void* AllocateOr(size_t size, Otherwise&& otherwise) {
  constexpr size_t kMost = kClassSize[CpuShelves::kLast] - kSealBytes;
  if (size - 1 >= kMost) [[unlikely]]
    return otherwise();
  const SizeClass c = ClassOf(size + kSealBytes);
  bool due = false;
  void* const p = arch::Pop(c, &due);  // hardened heaps have no ready lists
  if (p == nullptr) [[unlikely]]
    return otherwise();
  if (due) [[unlikely]]
    return FinishSampled(c, p, size);
  return Finish(c, p, size);
}

}  // namespace granary::heap::hardened
