// The slow paths of malloc and free, and everything else that the program's symbols need.
#pragma once

#include <cstddef>

#include "arch/rseq.h"
#include "base/compiler.h"
#include "layers/layers.h"

namespace granary::heap {

// Loads the options and makes the layers ready. Called only once.
GRANARY_COLD void Init() noexcept;
// Every slow path calls this first. It costs one load once the layers are ready.
inline void EnsureInit() noexcept {
  if (!layers.ready()) Init();
}

// These functions set errno as the C standard requires.
void* Allocate(size_t size) noexcept;
void* AllocateZeroed(size_t size) noexcept;
// `alignment` is a power of two.
void* AllocateAligned(size_t size, size_t alignment) noexcept;
void Free(void* p) noexcept;
// `size` is the size that the caller passed.
void FreeSized(void* p, size_t size, size_t alignment) noexcept;
void* Reallocate(void* p, size_t size) noexcept;

// The usable bytes of p. Aborts if p is not a live object; `verb` names the call in the report.
size_t UsableSize(const void* p, const char* verb) noexcept;
// What UsableSize would return for a new object of `size` bytes; 0 if `size` is too large.
size_t GoodSize(size_t size, size_t alignment) noexcept;

// Allocate and Free without the caches. `size` has a class, or needs a block.
void* AllocateUncached(size_t size, size_t alignment) noexcept;
void FreeUncached(void* p) noexcept;
// Tries to resize p to `size` without moving it, and returns its size after that.
size_t ResizeInPlace(void* p, size_t size) noexcept;

// Purges all free memory; returns the bytes purged.
GRANARY_SELDOM size_t Trim() noexcept;
// Flushes the caches to the slabs, whose checks find double frees.
void FlushCaches() noexcept;
// Aborts if the structures of the heap contradict each other.
GRANARY_SELDOM void Verify() noexcept;

// Samples p, which this CPU's cache returned for a request of `requested` bytes when a sample was
// due.
GRANARY_COLD __attribute__((returns_nonnull)) void* SampleDue(void* p, size_t requested) noexcept;

// Pushes p to this CPU's cache. False if p cannot begin an object of class c, may be in the cache
// already, or the cache is full.
GRANARY_ALWAYS_INLINE bool PushCached(uint64_t c, void* p) {
  return (AddressOf(p) & anchor.zero_bits[c]) == 0 && arch::Push(c, p);
}

// Pops from an array of this CPU's cache, and samples the object if a sample is due. nullptr if the
// array is empty.
GRANARY_ALWAYS_INLINE void* TakeCached(uint64_t list, size_t requested) {
  return arch::Pop(list, [requested](void* p) { return SampleDue(p, requested); });
}

}  // namespace granary::heap
