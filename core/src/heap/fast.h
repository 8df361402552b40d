// The halves of malloc and free that run inside every symbol.
#pragma once

#include "arch/rseq.h"
#include "heap/heap.h"

namespace granary::heap {

// An object of at least `size` bytes from this CPU's cache; nullptr if the slow path has to decide.
GRANARY_ALWAYS_INLINE void* TryAllocate(size_t size) {
  uint64_t list;
  if (size <= kFineLimit) [[likely]] {
    list = anchor.fine_list[(size + kFineGrain - 1) / kFineGrain];
  } else if (size <= kMaxSmall) {
    list = anchor.coarse_class[(size + kCoarseGrain - 1) / kCoarseGrain];
  } else if (size <= kMaxMedium) {
    list = anchor.medium_class[(size + kGranule - 1) / kGranule];
  } else {
    return nullptr;
  }
  return TakeCached(list, size);
}

// False if the slow path has to decide: null, large or foreign, or the cache is full.
GRANARY_ALWAYS_INLINE bool TryFree(void* p) { return arch::Push(page_map.ClassAt(p), p); }

// Likewise; also false if p is not what malloc(size) would return.
GRANARY_ALWAYS_INLINE bool TryFreeSized(void* p, size_t size) {
  const uint64_t c = page_map.ClassAt(p);
  static_assert(kReadyLists % 256 == 0 &&
                HasReady(ClassOf(kFineLimit)));  // a list ends in its class
  return size <= kFineLimit &&
         c == static_cast<uint8_t>(anchor.fine_list[(size + kFineGrain - 1) / kFineGrain]) &&
         arch::Push(c, p);
}

}  // namespace granary::heap
