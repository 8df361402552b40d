#include "heap/heap.h"

#include <errno.h>

#include "arena/arenas.h"
#include "base/misuse.h"
#include "base/writer.h"
#include "front/thread_settings.h"
#include "heap/hardened_fast.h"
#include "heap/internal.h"
#include "profiler/profiler.h"
#include "profiler/sampled_guards.h"
#include "upkeep/trim.h"
#include "upkeep/upkeep.h"

namespace granary::heap {

constinit EmptyObjects<Linux> empty_objects;

void* AllocateClass(SizeClass c, size_t requested) noexcept {
  if (layers.front().RefillReady(c)) {
    if (void* const p = TakeCached(PopList(c), requested); p != nullptr) return p;
  }
  upkeep.PollInMalloc();
  bool due = false;
  void* const p = layers.front().Allocate(c, &due);
  upkeep.NoteUsed(layers.pages().used_bytes());
  if (due && p != nullptr) [[unlikely]]
    profiler::Sample(p, c, kClassSize[c], requested);
  return p != nullptr ? Filled(p, kClassSize[c]) : Refused(kClassSize[c]);
}

void DieOf(const void* p, const char* verb) noexcept {
  using Place = PageHeap<Linux>::Place;
  switch (layers.pages().PlaceOf(p)) {
    case Place::kOutside:
      Die(MisuseReport{Misuse::kUnknownAddress, verb, p, 0, 0});
    case Place::kInside:
      Die(MisuseReport{Misuse::kUnaligned, verb, p, 0, 0});
    case Place::kFree:
      Die(MisuseReport{Misuse::kDoubleFree, verb, p, 0, 0});
  }
  __builtin_unreachable();
}

// An object of no bytes; nullptr if the caller must take an ordinary object.
GRANARY_COLD static void* AllocateEmpty() noexcept {
  EnsureInit();
  if (!options.trap_empty || HasThreadSettings()) return nullptr;
  return empty_objects.Allocate();
}

size_t RequireEmpty(const void* p, const char* verb) noexcept {
  if (!empty_objects.IsUsed(p)) Die(MisuseReport{Misuse::kDoubleFree, verb, p, 0, 0});
  return 0;
}

void FreeOfArena(void* p) noexcept {
  if (empty_objects.Holds(p)) {
    if (!empty_objects.Free(p)) Die(MisuseReport{Misuse::kDoubleFree, "free", p, 0, 0});
    return;
  }
  if (sampled_guards::Holds(p)) return sampled_guards::Free(p);
  Arena* const arena = OwnerOf(p);
  if (arena == nullptr) DieOf(p, "free");
  arena->Free(p);
}

void RequireLive(SizeClass c, const void* p, const char* verb) noexcept {
  if (!IsUserAddress(p)) DieOf(p, verb);
  layers.central().RequireUsed(c, p, verb);
}

// Sets the countdown first, so that no other call on this CPU finds it at zero.
void* SampleDue(void* p, size_t requested) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  layers.front().Rearm(c);
  if (!layers.front().sampling().on()) {
    upkeep.PollInMalloc();
    return p;
  }
  upkeep.Poll();  // a program that rarely leaves its caches takes no other slow path
  if (void* const guarded = sampled_guards::Allocate(requested); guarded != nullptr) {
    layers.Free(p);
    return guarded;
  }
  profiler::Sample(p, c, kClassSize[c], requested);
  return p;
}

void* Filled(void* p, size_t size) noexcept {
  if (!options.Fills()) return p;
  if (options.zero || (options.junk & 1) != 0) __builtin_memset(p, options.zero ? 0 : 0xa5, size);
  return p;
}

void* Refused(size_t size) noexcept {
  errno = ENOMEM;
  if (!options.abort_on_oom) return nullptr;
  char message[160];
  Writer w(message, sizeof message - 1);
  w.Text("out of memory: ").Number(size).Text(" bytes were refused and abort_on_oom is set");
  message[w.size()] = 0;
  Die(message);
}

// Under a limit on address space, the space of free memory may serve a block once it is unmapped.
GRANARY_COLD static Memory AllocateAfterTrim(size_t size, size_t alignment) noexcept {
  if (layers.pages().Stats().mapped < size) return {};
  TrimAndUnmap();
  return layers.pages().AllocateLarge(size, alignment, size);
}

void* AllocateLarge(size_t size, size_t alignment, size_t reserve, bool zero) noexcept {
  upkeep.PollInMalloc();
  Memory memory =
      size > kMaxRequest ? Memory{} : layers.pages().AllocateLarge(size, alignment, reserve);
  if (memory.p == nullptr) memory = AllocateAfterTrim(size, alignment);
  if (memory.p == nullptr) return Refused(size);
  // Before the first page is touched; a block that no machine has must not purge the heap.
  upkeep.MakeRoom(0);
  upkeep.NoteUsed(layers.pages().used_bytes());
  if (memory.Zero()) {
    upkeep.AfterFreshLarge(size);
  } else if (zero && !memory.Zero()) {
    __builtin_memset(memory.p, 0, size);
  }
  if (layers.front().sampling().on()) [[unlikely]] {
    const size_t bytes = RoundUp(size, layers.pages().OsPage());
    if (layers.front().sampling().Chosen(bytes)) profiler::Sample(memory.p, kNoClass, bytes, size);
  }
  return zero ? memory.p : Filled(memory.p, RoundUp(size, layers.pages().OsPage()));
}

// Objects of no cache, of no bytes, of threads with settings, and blocks.
GRANARY_NOINLINE static void* AllocateSlow(size_t size) noexcept {
  if (size == 0) {
    if (void* const p = AllocateEmpty(); p != nullptr) return p;
  }
  const SizeClass small = size <= kFineLimit ? ClassOf(size) : kNoClass;
  if (layers.front().MoveGroup(small)) {
    if (void* const p = TakeCached(ReadyList(small), size); p != nullptr) return p;
  }
  EnsureInit();
  if (HasThreadSettings()) return AllocateWithSettings(size, 1, false);
  if (options.hardened) return hardened::Allocate(size, 1);
  const SizeClass c = ClassOf(size);
  return c != kNoClass ? AllocateClass(c, size) : AllocateLarge(size, kTrackerBytes, size, false);
}

void* Allocate(size_t size) noexcept {
  if (!hardened::active) [[likely]]
    return AllocateSlow(size);
  return hardened::AllocateOr(size, [size] { return AllocateSlow(size); });
}

void* AllocateZeroed(size_t size) noexcept {
  EnsureInit();
  if (HasThreadSettings()) return AllocateWithSettings(size, 1, true);
  if (options.hardened) return Allocate(size);  // free objects are zero
  if (size == 0) {
    if (void* const p = AllocateEmpty(); p != nullptr) return p;
  }
  const SizeClass c = ClassOf(size);
  if (c == kNoClass) return AllocateLarge(size, kTrackerBytes, size, true);
  void* p = TakeCached(PopList(c), size);
  if (p == nullptr && !IsSmall(c)) {
    upkeep.Poll();
    p = layers.central().FetchZeroed(c);
    if (p == nullptr) return Refused(size);
    layers.front().CountUncached(c);
    if (layers.front().sampling().Chosen(kClassSize[c])) [[unlikely]]
      profiler::Sample(p, c, kClassSize[c], size);
    upkeep.NoteUsed(layers.pages().used_bytes());
    return p;
  }
  if (p == nullptr) p = AllocateClass(c, size);
  if (p != nullptr) __builtin_memset(p, 0, size);
  return p;
}

// A guarded sample is aligned as malloc aligns; where that is not enough, another object.
static void* AllocateAlignedClass(SizeClass c, size_t size, size_t alignment) noexcept {
  void* p = TakeCached(PopList(c), size);
  if (p == nullptr) p = AllocateClass(c, size);
  if (p == nullptr || IsAligned(AddressOf(p), alignment)) [[likely]]
    return p;
  sampled_guards::Free(p);
  return AllocateUncached(size, alignment);
}

void* AllocateAligned(size_t size, size_t alignment) noexcept {
  EnsureInit();
  if (HasThreadSettings()) return AllocateWithSettings(size, alignment, false);
  if (options.hardened) return hardened::Allocate(size, alignment);
  if (alignment <= kGranule) {
    const SizeClass c = AlignedClassOf(size, alignment);
    if (c != kNoClass) return AllocateAlignedClass(c, size, alignment);
  }
  return AllocateLarge(size, alignment, size, false);
}

GRANARY_NOINLINE static void FreeSlow(void* p) noexcept {
  if (p == nullptr) return;
  EnsureInit();
  if (HasThreadSettings()) return FreeWithSettings(p);
  if (options.hardened) return hardened::Free(p);
  SizeClass c = page_map.ClassAt(p);
  if (c == kSampledClass) {
    if (!profiler::Unsample(p)) return;
    c = ObjectClassAt(page_map, p);
    if (!options.FillsFreed() && PushCached(c, p)) return;
  }
  if (c != kNoClass) {
    RequireLive(c, p, "free");
    upkeep.Poll();
    if (options.FillsFreed()) layers.FillFreed(c, p);
    return layers.front().Free(c, p);
  }
  const size_t large = layers.pages().LargeSize(p);
  if (large == 0) return FreeOfArena(p);
  if (layers.profile().Collects() && !profiler::Unsample(p)) [[unlikely]]
    return;
  layers.FreeLarge(p, large);
  upkeep.AfterLargeFree(large);
}

void Free(void* p) noexcept {
  if (!hardened::active) [[likely]]
    return FreeSlow(p);
  hardened::FreeOr(p, [p] { FreeSlow(p); });
}

void ReportWrongSize(const void* p, size_t actual, size_t passed) noexcept {
  const MisuseReport wrong{Misuse::kWrongSize, "sized free", p, actual, passed};
  if (!options.warn_wrong_size) Die(wrong);
  Report(wrong);
}

GRANARY_NOINLINE static void FreeSizedSlow(void* p, size_t size, size_t alignment) noexcept {
  if (p == nullptr) return;
  const size_t usable = UsableSize(p, "sized free");
  const bool exact = usable == 0 || sampled_guards::Holds(p);
  if (usable != (exact ? size : GoodSize(size, alignment))) ReportWrongSize(p, usable, size);
  if (!PushCached(page_map.ClassAt(p), p)) Free(p);
}

void FreeSized(void* p, size_t size, size_t alignment) noexcept {
  const auto slow = [=] { FreeSizedSlow(p, size, alignment); };
  if (!hardened::active) [[likely]]
    return slow();
  hardened::FreeSizedOr(p, size, slow);
}

size_t UsableSize(const void* p, const char* verb) noexcept {
  EnsureInit();
  if (options.hardened) return hardened::UsableSize(p, verb);
  if (!IsUserAddress(p)) DieOf(p, verb);
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) return kClassSize[c];
  size_t large = layers.pages().LargeSize(p);
  if (large != 0) return large;
  if (empty_objects.Holds(p)) return RequireEmpty(p, verb);
  if (sampled_guards::Holds(p)) return sampled_guards::SizeOf(p, verb);
  if (Arena* const arena = OwnerOf(p)) large = arena->UsableSize(p);
  if (large == 0) DieOf(p, verb);
  return large;
}

size_t GoodSize(size_t size, size_t alignment) noexcept {
  EnsureInit();
  if (options.hardened) return size > kMaxBlock ? 0 : size;
  const SizeClass c = alignment <= kGranule ? AlignedClassOf(size, alignment) : kNoClass;
  if (c != kNoClass) return kClassSize[c];
  return size > kMaxBlock ? 0 : RoundUp(size == 0 ? 1 : size, layers.pages().OsPage());
}

size_t Trim() noexcept {
  EnsureInit();
  if (options.hardened) hardened::FlushQuarantine();
  return granary::Trim();
}

void FlushCaches() noexcept {
  EnsureInit();
  if (options.hardened) hardened::FlushQuarantine();
  granary::FlushCaches();
}

void Verify() noexcept {
  EnsureInit();
  layers.central().Verify();
  layers.pages().Verify();
}

}  // namespace granary::heap
