// malloc and free with option hardened. The fast paths find nothing (TakeSlowPaths in
// arch/anchor.h), so every call comes here. The caches work as always; objects wait in quarantine
// before they return to them.

#include <algorithm>
#include <bit>

#include "arena/arenas.h"
#include "arena/stash.h"
#include "hardened/guarded_blocks.h"
#include "hardened/quarantine.h"
#include "hardened/seal.h"
#include "hardened/zeros.h"
#include "heap/heap.h"
#include "heap/internal.h"
#include "profiler/profiler.h"
#include "upkeep/upkeep.h"

namespace granary::heap::hardened {
namespace {

using granary::hardened::GuardedBlocks;
using granary::hardened::IsZero;
using granary::hardened::kSealBytes;
using granary::hardened::MakeZero;
using granary::hardened::Quarantine;
using granary::hardened::seals;
using granary::hardened::Seals;

// Bytes of each class that wait in quarantine, on all shelves.
constexpr size_t kWaitingBytes = 64 * kKiB;
constexpr size_t kMostSlots = 256;

constexpr size_t SlotsOf(SizeClass c) {
  const size_t fit = std::bit_floor(kWaitingBytes / kClassSize[c]);
  return fit > kMostSlots ? kMostSlots : fit < 2 ? 2 : fit;
}

constinit GuardedBlocks<Linux> blocks;

// A CPU has quarantines of its own for small classes, as a free would otherwise wait for a cache
// line that another CPU wrote. Larger classes have too few slots to divide.
constexpr size_t kMostShelves = 4;
constexpr size_t kDividedUpTo = kWaitingBytes / (8 * kMostShelves);
struct alignas(kCacheLine) Shelf {
  Quarantine quarantine[kNumSmall];
};
constinit Shelf shelves[kMostShelves];
constinit size_t shelf_count = 1;  // a power of two

size_t ShelvesOf(SizeClass c) { return kClassSize[c] <= kDividedUpTo ? shelf_count : 1; }

Quarantine& QuarantineOf(SizeClass c) {
  return shelves[static_cast<size_t>(CurrentIndex()) & (ShelvesOf(c) - 1)].quarantine[c];
}

template <class Visit>
void ForEachQuarantine(Visit&& visit) {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    for (size_t i = 0; i < ShelvesOf(c); ++i) visit(c, shelves[i].quarantine[c]);
  }
}

[[noreturn]] GRANARY_COLD void DieOfSeal(SizeClass c, const void* p, const char* verb) {
  const Misuse what = Seals::IsOpen(static_cast<const char*>(p), kClassSize[c])
                          ? Misuse::kDoubleFree
                          : Misuse::kWrittenBeyond;
  Die(MisuseReport{what, verb, p, kClassSize[c], 0});
}

// Aborts if p, an address of class c, is not an object in use with its seal whole; returns its
// size.
size_t RequireSealed(SizeClass c, const void* p, const char* verb) {
  RequireLive(c, p, verb);
  const char* const object = static_cast<const char*>(p);
  if (!seals.IsWhole(object, kClassSize[c])) DieOfSeal(c, p, verb);
  return Seals::SizeOf(object, kClassSize[c]);
}

// The word before p is the seal of the object before it, or zero.
void CheckBefore(SizeClass c, char* p) {
  if (page_map.SlabAt(p)->base == p) return;  // what precedes the slab is no object of it
  const size_t room = kClassSize[c];
  if (Seals::IsOpen(p - room, room) || seals.IsWhole(p - room, room)) return;
  // Unless another thread sealed, resized or freed that object between the two reads.
  if (Seals::IsOpen(p - room, room) || seals.IsWhole(p - room, room)) return;
  const size_t size = Seals::SizeOf(p, room);
  Die(MisuseReport{Misuse::kWrittenBefore, "free", p, size, 0});
}

void RequireZero(SizeClass c, const char* p, const char* verb) {
  if (!IsZero(p, kClassSize[c])) Die(MisuseReport{Misuse::kWrittenFree, verb, p, kClassSize[c], 0});
}

void* AllocateObject(SizeClass c, size_t size) {
  void* p = TakeCached(PopList(c), size);
  if (p == nullptr) p = AllocateClass(c, size);
  if (p == nullptr) return nullptr;
  char* const object = static_cast<char*>(p);
  RequireZero(c, object, "malloc");
  seals.Close(object, size, kClassSize[c]);
  return p;
}

void FreeObject(SizeClass c, char* p) {
  RequireSealed(c, p, "free");
  if (!Seals::MarginIsWhole(p, kClassSize[c])) DieOfSeal(c, p, "free");
  CheckBefore(c, p);
  MakeZero(p, kClassSize[c]);
  if (page_map.ClassAt(p) == kSampledClass && !profiler::Unsample(p)) return;
  void* const out = QuarantineOf(c).Exchange(p);
  if (out == nullptr || arch::Push(c, out)) return;
  upkeep.Poll();
  layers.front().Free(c, out);
}

// From this size on, a block that realloc returns has address space to grow into.
constexpr size_t kGrowsInPlaceFrom = 256 * kKiB;

template <class Make>
void* NewBlock(size_t size, Make&& make) {
  upkeep.PollInMalloc();
  void* const p = make();
  if (p == nullptr) return Refused(size);
  upkeep.MakeRoom(0);
  upkeep.NoteUsed(layers.pages().used_bytes());
  if (layers.front().sampling().on() && layers.front().sampling().Chosen(size)) [[unlikely]]
    profiler::Sample(p, kNoClass, size, size);
  return p;
}

void* AllocateBlock(size_t size, size_t alignment) {
  return NewBlock(size, [&] { return blocks.Allocate(size == 0 ? 1 : size, alignment); });
}

void FreeBlock(void* p) {
  if (layers.profile().Collects() && !profiler::Unsample(p)) [[unlikely]]
    return;
  blocks.Free(p);
}

// The class of the memory for an object of `size` bytes and its seal; kNoClass for a block.
SizeClass RoomFor(size_t size, size_t alignment) {
  if (size > kMaxSmall || alignment > kGranule) return kNoClass;
  const SizeClass c = AlignedClassOf(size + kSealBytes, alignment);
  return c != kNoClass && IsSmall(c) ? c : kNoClass;
}

}  // namespace

void Init() noexcept {
  seals = Seals(Linux::Secret());
  stashed.fill(0);
  Quarantine::Seed(Linux::Secret() + 1);
  blocks.Bind(layers.pages());
  shelf_count = std::bit_floor(std::clamp(size_t{Linux::CpuCount()}, size_t{1}, kMostShelves));
  ForEachQuarantine([](SizeClass c, Quarantine& quarantine) {
    const size_t count = SlotsOf(c) / ShelvesOf(c);
    auto* const slots = static_cast<std::atomic<void*>*>(
        layers.metadata().Allocate(count * sizeof(std::atomic<void*>)));
    if (slots == nullptr) granary::Die("out of memory for the quarantine of hardened:true");
    quarantine.Bind(slots, count);
  });
}

void* Allocate(size_t size, size_t alignment) noexcept {
  if (size == 0 && alignment <= empty_objects.kStep) {
    if (void* const p = empty_objects.Allocate(); p != nullptr) return p;
  }
  const SizeClass c = RoomFor(size, alignment);
  return c != kNoClass ? AllocateObject(c, size) : AllocateBlock(size, alignment);
}

void Free(void* p) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) return FreeObject(c, static_cast<char*>(p));
  if (blocks.SizeOf(p, "free") != 0) return FreeBlock(p);
  FreeOfArena(p);
}

size_t UsableSize(const void* p, const char* verb) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) return RequireSealed(c, p, verb);
  if (empty_objects.Holds(p)) return RequireEmpty(p, verb);
  size_t size = blocks.SizeOf(p, verb);
  if (size != 0) return size;
  if (Arena* const arena = OwnerOf(p); arena != nullptr) size = arena->UsableSize(p);
  if (size == 0) DieOf(p, verb);
  return size;
}

size_t ResizeInPlace(void* p, size_t size) noexcept {
  const size_t before = UsableSize(p, "xallocx");
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c == kNoClass) return size > kMaxSmall && blocks.Resize(p, size) ? size : before;
  if (RoomFor(size, 1) != c) return before;
  seals.Close(static_cast<char*>(p), size, kClassSize[c]);
  return size;
}

void* Reallocate(void* p, size_t size) noexcept {
  const size_t before = UsableSize(p, "realloc");
  if (Arena* const arena = OwnerOf(p); arena != nullptr) {
    void* const moved = arena->Reallocate(p, size);
    return moved != nullptr ? moved : Refused(size);
  }
  if (size != 0 && ResizeInPlace(p, size) == size) return p;
  void* const q = size >= kGrowsInPlaceFrom
                      ? NewBlock(size, [size] { return blocks.AllocateToGrow(size); })
                      : Allocate(size, 1);
  if (q == nullptr) return nullptr;
  __builtin_memcpy(q, p, before < size ? before : size);
  Free(p);
  return q;
}

void FlushQuarantine() noexcept {
  ForEachQuarantine([](SizeClass c, Quarantine& quarantine) {
    quarantine.TakeAll([c](void* p) {
      RequireZero(c, static_cast<char*>(p), "exit");
      layers.front().Free(c, p);
    });
  });
}

void ClearQuarantine() noexcept {
  ForEachQuarantine([](SizeClass c, Quarantine& quarantine) {
    quarantine.ForEach([c](void* p) { MakeZero(static_cast<char*>(p), kClassSize[c]); });
  });
}

}  // namespace granary::heap::hardened
