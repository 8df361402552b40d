#include "compat/jemalloc/allocx.h"

#include "arena/arenas.h"
#include "front/thread_settings.h"
#include "heap/fast.h"

namespace granary::jemalloc {
namespace {

// Whether every object of `size` has this alignment: 8 bytes, and the quantum from 9 bytes up.
bool Aligned(size_t alignment, size_t size) {
  return alignment <= 8 || (alignment == kQuantum && size > 8);
}

// Allocates from an arena that the program created; nullptr also if there is no such arena.
void* TakeFromArena(size_t size, Flags flags) {
  Arena* const arena = ArenaAt(flags.ArenaField() - 1);
  void* const p =
      arena == nullptr ? nullptr : arena->Allocate(size, flags.Alignment(), flags.Zero());
  if (p != nullptr && HasThreadSettings()) thread_settings.Allocated(arena->UsableSize(p));
  return p;
}

void* Take(size_t size, Flags flags) {
  if (flags.ArenaField() > 1) return TakeFromArena(size, flags);
  if (flags.NoCache()) return heap::AllocateUncached(size, flags.Alignment());
  if (!Aligned(flags.Alignment(), size)) return heap::AllocateAligned(size, flags.Alignment());
  if (void* p = heap::TryAllocate(size)) return p;
  return heap::Allocate(size);
}

}  // namespace

void* Allocate(size_t size, Flags flags) noexcept {
  if (!flags.Zero()) return Take(size, flags);
  if (!flags.NoCache() && flags.ArenaField() <= 1 && Aligned(flags.Alignment(), size)) {
    const size_t good = GoodSize(size, flags);  // the whole object must read as zero
    return heap::AllocateZeroed(good != 0 ? good : size);
  }
  void* const p = Take(size, flags);
  if (p != nullptr) __builtin_memset(p, 0, heap::UsableSize(p, "mallocx"));
  return p;
}

void* Reallocate(void* p, size_t size, Flags flags) noexcept {
  const size_t before = heap::UsableSize(p, "rallocx");
  // Bytes that the program did not request count as its content here: they are zero, or what it
  // wrote.
  if (const size_t good = GoodSize(size, flags); flags.Zero() && good != 0) size = good;
  void* q;
  if (!flags.NoCache() && flags.ArenaField() <= 1 && Aligned(flags.Alignment(), size)) {
    q = heap::Reallocate(p, size);
  } else if (GoodSize(size, flags) == before && AddressOf(p) % flags.Alignment() == 0) {
    q = p;
  } else {
    q = Take(size, flags);
    if (q == nullptr) return nullptr;
    __builtin_memcpy(q, p, size < before ? size : before);
    Free(p, flags);
  }
  if (q == nullptr || !flags.Zero()) return q;
  const size_t after = heap::UsableSize(q, "rallocx");
  if (after > before) __builtin_memset(static_cast<char*>(q) + before, 0, after - before);
  return q;
}

size_t ResizeInPlace(void* p, size_t size, size_t extra, Flags flags) noexcept {
  const size_t before = heap::UsableSize(p, "xallocx");
  size_t after = before;
  if (size + extra >= size) after = heap::ResizeInPlace(p, size + extra);
  if (after < size) after = heap::ResizeInPlace(p, size);
  if (flags.Zero() && after > before) {
    __builtin_memset(static_cast<char*>(p) + before, 0, after - before);
  }
  return after;
}

void Free(void* p, Flags flags) noexcept {
  if (flags.NoCache()) return heap::FreeUncached(p);
  if (!heap::TryFree(p)) heap::Free(p);
}

void FreeSized(void* p, size_t size, Flags flags) noexcept {
  if (flags.NoCache()) return heap::FreeUncached(p);
  if (!heap::TryFreeSized(p, size)) heap::FreeSized(p, size, flags.Alignment());
}

size_t GoodSize(size_t size, Flags flags) noexcept {
  return heap::GoodSize(size, flags.Alignment());
}

}  // namespace granary::jemalloc
