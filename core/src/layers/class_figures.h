// Figures of the shared heap by size class, read while other threads may allocate.
#pragma once

#include "sizes/size_classes.h"
#include "stats/snapshot.h"

namespace granary {

// The figures of one size class, 1 <= c < kNumClasses.
ClassFigures MeasureClass(SizeClass c) noexcept;

// Bytes of live objects and blocks. Objects that move from the caches to the slabs meanwhile never
// lower the result. It includes objects that a thread is just moving from or to a cache.
uint64_t LiveBytes() noexcept;

// Bytes of free objects in the caches and the depot.
uint64_t CachedBytes() noexcept;

}  // namespace granary
