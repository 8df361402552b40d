// A Snapshot of the heap.
#pragma once

#include "sizes/size_classes.h"
#include "stats/snapshot.h"

namespace granary {

// Read while the program runs on: each figure is exact for some moment during the call.
Snapshot Measure() noexcept;

// The same of one class of objects, 1 <= c < kNumClasses.
ClassFigures MeasureClass(SizeClass c) noexcept;

}  // namespace granary
