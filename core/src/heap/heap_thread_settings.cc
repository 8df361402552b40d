// Calls of threads with thread settings (front/thread_settings.h), and calls that bypass the
// caches.

#include <errno.h>

#include "arena/arenas.h"
#include "front/thread_settings.h"
#include "heap/fast.h"
#include "heap/internal.h"
#include "profiler/profiler.h"
#include "upkeep/upkeep.h"

namespace granary::heap {

void* AllocateWithSettings(size_t size, size_t alignment, bool zero) noexcept {
  const SuspendSettings suspend;
  void* p;
  if (Arena* const arena = ArenaAt(thread_settings.arena)) {
    p = arena->Allocate(size, alignment, zero);
    if (p == nullptr) return Refused(size);
  } else if (thread_settings.uncached) {
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
  if (p != nullptr) thread_settings.Allocated(UsableSize(p, "malloc"));
  return p;
}

void FreeWithSettings(void* p) noexcept {
  const SuspendSettings suspend;
  thread_settings.Freed(UsableSize(p, "free"));
  if (thread_settings.uncached) return FreeUncached(p);
  if (!TryFree(p)) Free(p);
}

void* ReallocateWithSettings(void* p, size_t size) noexcept {
  const SuspendSettings suspend;
  const size_t before = UsableSize(p, "realloc");
  void* const q = Reallocate(p, size);
  if (q == nullptr) return nullptr;
  thread_settings.Freed(before);
  thread_settings.Allocated(UsableSize(q, "realloc"));
  return q;
}

// With option hardened there are no such calls: each object passes the same checks.
GRANARY_COLD static void* AllocateHardenedUncached(size_t size, size_t alignment) noexcept {
  void* const p = hardened::Allocate(size, alignment);
  if (p != nullptr && HasThreadSettings()) thread_settings.Allocated(size);
  return p;
}

GRANARY_COLD static void FreeHardenedUncached(void* p) noexcept {
  if (HasThreadSettings()) thread_settings.Freed(UsableSize(p, "free"));
  hardened::Free(p);
}

void* AllocateUncached(size_t size, size_t alignment) noexcept {
  EnsureInit();
  if (options.hardened) return AllocateHardenedUncached(size, alignment);
  const SizeClass c = alignment <= kGranule ? AlignedClassOf(size, alignment) : kNoClass;
  if (c == kNoClass)
    return AllocateAligned(size, alignment < kTrackerBytes ? kTrackerBytes : alignment);
  upkeep.PollInMalloc();
  void* p = nullptr;
  if (layers.depot().Fetch(c, &p, 1) == 0) return Refused(kClassSize[c]);
  layers.front().CountUncached(c);
  if (layers.front().sampling().Chosen(kClassSize[c])) [[unlikely]]
    profiler::Sample(p, c, kClassSize[c], size);
  upkeep.NoteUsed(layers.pages().used_bytes());
  if (HasThreadSettings()) thread_settings.Allocated(kClassSize[c]);
  return Filled(p, kClassSize[c]);
}

void FreeUncached(void* p) noexcept {
  if (p == nullptr) return;
  EnsureInit();
  if (options.hardened) return FreeHardenedUncached(p);
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c == kNoClass) return Free(p);
  if (HasThreadSettings()) thread_settings.Freed(kClassSize[c]);
  if (page_map.ClassAt(p) == kSampledClass && !profiler::Unsample(p)) return;
  upkeep.Poll();
  layers.central().Return(c, &p, 1);
}

size_t ResizeInPlace(void* p, size_t size) noexcept {
  EnsureInit();
  if (options.hardened) return hardened::ResizeInPlace(p, size);
  const size_t before = UsableSize(p, "xallocx");
  if (before == 0 || ObjectClassAt(page_map, p) != kNoClass || ClassOf(size) != kNoClass)
    return before;
  const size_t good = GoodSize(size, 1);
  if (good == 0 || good == before) return before;
  Arena* const arena = OwnerOf(p);
  if (!(arena != nullptr ? arena->ResizeInPlace(p, good) : layers.pages().ResizeLarge(p, good))) {
    return before;
  }
  const size_t after = UsableSize(p, "xallocx");
  if (HasThreadSettings()) {
    thread_settings.Freed(before);
    thread_settings.Allocated(after);
  }
  return after;
}

}  // namespace granary::heap
