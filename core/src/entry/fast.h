// The halves of malloc and free that run inside every symbol.
#pragma once

#include "arch/rseq.h"
#include "entry/heap.h"

namespace granary {

// An object of at least `size` bytes from this CPU's cache; nullptr if the slow path has to decide.
GRANARY_ALWAYS_INLINE void* TryAllocate(size_t size) {
  uint64_t c;
  if (size <= kFineLimit) [[likely]] {
    c = anchor.fine_class[(size + kFineGrain - 1) / kFineGrain];
  } else if (size <= kMaxSmall) {
    c = anchor.coarse_class[(size + kCoarseGrain - 1) / kCoarseGrain];
  } else if (size <= kMaxMedium) {
    c = anchor.medium_class[(size + kGranule - 1) / kGranule];
  } else {
    return nullptr;
  }
  return arch::Pop(c, [size](void* p) { return heap.SampleDue(p, size); });
}

// False if the slow path has to decide: null, large or foreign, or the cache is full.
GRANARY_ALWAYS_INLINE bool TryFree(void* p) { return arch::Push(page_map.ClassAt(p), p); }

// Likewise; also false if p is not what malloc(size) would return.
GRANARY_ALWAYS_INLINE bool TryFreeSized(void* p, size_t size) {
  const uint64_t c = page_map.ClassAt(p);
  return size <= kFineLimit && c == anchor.fine_class[(size + kFineGrain - 1) / kFineGrain] &&
         arch::Push(c, p);
}

}  // namespace granary
