// Figures of the shared heap by size class, read while the program runs on.
#pragma once

#include "sizes/size_classes.h"
#include "stats/snapshot.h"

namespace granary {

// The figures of one class of objects, 1 <= c < kNumClasses.
ClassFigures MeasureClass(SizeClass c) noexcept;

// What the program holds, in bytes. Objects that move from the caches to the slabs meanwhile never
// make it smaller; objects that a thread is just taking from or giving to a cache are included.
uint64_t LiveBytes() noexcept;

// Bytes of free objects in the caches and the depot.
uint64_t CachedBytes() noexcept;

}  // namespace granary
