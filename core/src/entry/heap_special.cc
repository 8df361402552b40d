// The calls of threads that are out of the ordinary (traits.h), and those that pass the caches.

#include <errno.h>

#include "entry/fast.h"
#include "entry/heap.h"
#include "entry/jemalloc/arena.h"
#include "entry/traits.h"

namespace granary {

void* Heap::AllocateSpecial(size_t size, size_t alignment, bool zero) noexcept {
  const Ordinary ordinary;
  void* p;
  if (jemalloc::Arena* const arena = jemalloc::ArenaAt(traits.arena)) {
    p = arena->Allocate(size, alignment, zero);
    if (p == nullptr) return Refused(size);
  } else if (traits.uncached) {
    p = AllocateUncached(size, alignment);
    if (p != nullptr && zero) __builtin_memset(p, 0, size);
  } else if (zero) {
    p = AllocateZeroed(size);
  } else if (alignment > 1) {
    p = AllocateAligned(size, alignment);
  } else {
    p = TryAllocate(size);
    if (p == nullptr) p = Allocate(size);
  }
  if (p != nullptr) traits.Allocated(UsableSize(p, "malloc"));
  return p;
}

void Heap::FreeSpecial(void* p) noexcept {
  const Ordinary ordinary;
  traits.Freed(UsableSize(p, "free"));
  if (traits.uncached) return FreeUncached(p);
  if (!TryFree(p)) Free(p);
}

void* Heap::ReallocateSpecial(void* p, size_t size) noexcept {
  const Ordinary ordinary;
  const size_t before = UsableSize(p, "realloc");
  void* const q = Reallocate(p, size);
  if (q == nullptr) return nullptr;
  traits.Freed(before);
  traits.Allocated(UsableSize(q, "realloc"));
  return q;
}

void* Heap::AllocateUncached(size_t size, size_t alignment) noexcept {
  EnsureInit();
  const SizeClass c = alignment <= kGranule ? AlignedClassOf(size, alignment) : kNoClass;
  if (c == kNoClass)
    return AllocateAligned(size, alignment < kTrackerBytes ? kTrackerBytes : alignment);
  upkeep_.PollInMalloc();
  void* p = nullptr;
  if (depot_.Take(c, &p, 1) == 0) return Refused(kClassSize[c]);
  front_.CountUncached(c);
  if (front_.sampling().Chosen(kClassSize[c])) [[unlikely]]
    Sample(p, c, kClassSize[c], size);
  peaks_.Note(pages_.used_bytes());
  if (IsSpecial()) traits.Allocated(kClassSize[c]);
  return Filled(p, kClassSize[c]);
}

void Heap::FreeUncached(void* p) noexcept {
  if (p == nullptr) return;
  EnsureInit();
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c == kNoClass) return Free(p);
  if (IsSpecial()) traits.Freed(kClassSize[c]);
  if (page_map.ClassAt(p) == kSampledClass && !Unsample(p)) return;
  upkeep_.Poll();
  central_.Return(c, &p, 1);
}

// A block stays in its arena.
void* Heap::MoveInArena(jemalloc::Arena& arena, void* p, size_t size) noexcept {
  void* const q = arena.Reallocate(p, size);
  return q != nullptr ? q : Refused(size);
}

size_t Heap::ResizeInPlace(void* p, size_t size) noexcept {
  EnsureInit();
  const size_t before = UsableSize(p, "xallocx");
  if (ObjectClassAt(page_map, p) != kNoClass || ClassOf(size) != kNoClass) return before;
  const size_t good = GoodSize(size, 1);
  if (good == 0 || good == before) return before;
  jemalloc::Arena* const arena = jemalloc::OwnerOf(p);
  if (!(arena != nullptr ? arena->ResizeInPlace(p, good) : pages_.ResizeLarge(p, good))) {
    return before;
  }
  const size_t after = UsableSize(p, "xallocx");
  if (IsSpecial()) {
    traits.Freed(before);
    traits.Allocated(after);
  }
  return after;
}

}  // namespace granary
