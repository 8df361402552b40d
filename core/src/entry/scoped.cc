// The functions of granary/heap.h. A scoped heap is an arena (arena/arena.h) whose memory comes
// from the system.

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <bit>

#include "arena/arenas.h"
#include "base/compiler.h"
#include "granary/heap.h"
#include "heap/heap.h"

using granary::Arena;
using granary::ArenaAt;
using granary::CreateArena;
using granary::ResetArena;

namespace {

Arena* ArenaOf(granary_heap* h) { return reinterpret_cast<Arena*>(h); }
const Arena* ArenaOf(const granary_heap* h) { return reinterpret_cast<const Arena*>(h); }
granary_heap* HeapOf(Arena* arena) { return reinterpret_cast<granary_heap*>(arena); }

void* OrOutOfMemory(void* p) {
  if (p == nullptr) errno = ENOMEM;
  return p;
}

// An alignment of 1 is enough for malloc: from 9 bytes on every class is aligned to 16.
void* Allocate(granary_heap* h, size_t size, size_t alignment, bool zero) {
  return OrOutOfMemory(ArenaOf(h)->Allocate(size, alignment, zero));
}

}  // namespace

extern "C" {

GRANARY_EXPORT granary_heap* granary_heap_create(const char* name, size_t cap) {
  granary::heap::EnsureInit();
  unsigned index;
  if (CreateArena(nullptr, &index) != 0) {
    errno = ENOMEM;
    return nullptr;
  }
  Arena* const arena = ArenaAt(index);
  if (name != nullptr) strncpy(arena->name, name, sizeof arena->name - 1);
  arena->SetCap(cap);
  return HeapOf(arena);
}

GRANARY_EXPORT void granary_heap_destroy(granary_heap* h) {
  if (h != nullptr) ResetArena(ArenaOf(h)->index(), true);
}

GRANARY_EXPORT void granary_heap_reset(granary_heap* h) { ResetArena(ArenaOf(h)->index(), false); }

GRANARY_EXPORT void* granary_heap_malloc(granary_heap* h, size_t size) {
  return Allocate(h, size, 1, false);
}

GRANARY_EXPORT void* granary_heap_calloc(granary_heap* h, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return OrOutOfMemory(nullptr);
  return Allocate(h, bytes, 1, true);
}

GRANARY_EXPORT void* granary_heap_aligned_alloc(granary_heap* h, size_t alignment, size_t size) {
  if (!std::has_single_bit(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  return Allocate(h, size, alignment, false);
}

GRANARY_EXPORT void* granary_heap_realloc(granary_heap* h, void* p, size_t size) {
  if (p == nullptr) return granary_heap_malloc(h, size);
  if (size == 0) {
    granary_heap_free(h, p);
    return nullptr;
  }
  ArenaOf(h)->CheckOwns(p, "granary_heap_realloc");
  return OrOutOfMemory(ArenaOf(h)->Reallocate(p, size));
}

GRANARY_EXPORT void granary_heap_free(granary_heap* h, void* p) {
  if (p != nullptr) ArenaOf(h)->Free(p);
}

GRANARY_EXPORT granary_heap* granary_heap_of(const void* p) { return HeapOf(granary::OwnerOf(p)); }

GRANARY_EXPORT void granary_heap_set_cap(granary_heap* h, size_t cap) { ArenaOf(h)->SetCap(cap); }

GRANARY_EXPORT const char* granary_heap_name(const granary_heap* h) { return ArenaOf(h)->name; }

GRANARY_EXPORT void granary_heap_purge(granary_heap* h) { ArenaOf(h)->Purge(true); }

GRANARY_EXPORT void granary_heap_measure(granary_heap* h, struct granary_heap_figures* figures,
                                         size_t bytes) {
  Arena* const arena = ArenaOf(h);
  const granary_heap_figures now = {arena->live(), arena->CountObjects(), arena->HeldBytes(),
                                    arena->cap()};
  memcpy(figures, &now, bytes < sizeof now ? bytes : sizeof now);
}

}  // extern "C"
