// The fast paths of malloc and free, inlined into every symbol.
#pragma once

#include "arch/rseq.h"
#include "heap/heap.h"

namespace granary::heap {

// An object of at least `size` bytes from this CPU's cache; nullptr if the slow path must decide.
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

// False if the slow path must decide: p is null, a block, an unknown address or misused, or the
// cache is full.
GRANARY_ALWAYS_INLINE bool TryFree(void* p) { return PushCached(page_map.ClassAt(p), p); }

// As TryFree. Also false if p is not an object that malloc(size) would return.
GRANARY_ALWAYS_INLINE bool TryFreeSized(void* p, size_t size) {
  const uint64_t c = page_map.ClassAt(p);
  static_assert(kReadyLists % 256 == 0 &&
                HasReady(ClassOf(kFineLimit)));  // the low byte of a list is its class
  return size <= kFineLimit &&
         c == static_cast<uint8_t>(anchor.fine_list[(size + kFineGrain - 1) / kFineGrain]) &&
         PushCached(c, p);
}

}  // namespace granary::heap
