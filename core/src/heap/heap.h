// The slow halves of malloc and free, and what else the symbols that a program calls need: what
// happens when no cache serves the request.
#pragma once

#include <cstddef>

#include "arch/rseq.h"
#include "base/compiler.h"
#include "layers/layers.h"

namespace granary::heap {

// Loads the options and makes the layers ready. Called once.
GRANARY_COLD void Init() noexcept;
// Each slow path begins with it; one load once the layers are ready.
inline void EnsureInit() noexcept {
  if (!layers.ready()) Init();
}

// These set errno as C wants.
void* Allocate(size_t size) noexcept;
void* AllocateZeroed(size_t size) noexcept;
// `alignment` is a power of two.
void* AllocateAligned(size_t size, size_t alignment) noexcept;
void Free(void* p) noexcept;
// `size` is what the caller says it requested.
void FreeSized(void* p, size_t size, size_t alignment) noexcept;
void* Reallocate(void* p, size_t size) noexcept;

// The bytes of p that may be used. Ends the program if p is no block in use; `verb` names the call.
size_t UsableSize(const void* p, const char* verb) noexcept;
// What UsableSize would be of a fresh block of `size` bytes; 0 if no block can be that large.
size_t GoodSize(size_t size, size_t alignment) noexcept;

// Allocate and Free past the caches. `size` has a class or is large.
void* AllocateUncached(size_t size, size_t alignment) noexcept;
void FreeUncached(void* p) noexcept;
// The bytes that p has now, after an attempt to resize it to `size` where it lies.
size_t ResizeInPlace(void* p, size_t size) noexcept;

// Gives everything free back to the system; returns the bytes given back.
GRANARY_SELDOM size_t Trim() noexcept;
// Sends what the caches hold to the slabs, whose checks find blocks freed twice.
void FlushCaches() noexcept;
// Ends the program if the structures of the heap contradict each other.
GRANARY_SELDOM void Verify() noexcept;

// A sample is due on p, which this CPU's cache gave out for a request of `requested` bytes.
GRANARY_COLD __attribute__((returns_nonnull)) void* SampleDue(void* p, size_t requested) noexcept;

// The top of a list of this CPU's cache, sampled if that is due; nullptr if the list is empty.
GRANARY_ALWAYS_INLINE void* TakeCached(uint64_t list, size_t requested) {
  return arch::Pop(list, [requested](void* p) { return SampleDue(p, requested); });
}

}  // namespace granary::heap
