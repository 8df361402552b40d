// A Snapshot of the heap.
#pragma once

#include "sizes/size_classes.h"
#include "stats/snapshot.h"

namespace granary {

// Read while the program runs on: each figure is exact for some moment during the call.
Snapshot Measure() noexcept;

// What the program holds now, in bytes. Never more because objects were on their way meanwhile from
// the caches to the slabs; those in the hands of a thread on their way to or from a cache count.
uint64_t LiveBytes() noexcept;

// The same of one class of objects, 1 <= c < kNumClasses.
ClassFigures MeasureClass(SizeClass c) noexcept;

}  // namespace granary
