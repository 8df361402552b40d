// A Snapshot of the heap.
#pragma once

#include "stats/snapshot.h"

namespace granary {

// Read while the program runs on: each figure is exact for some moment during the call. The heap is
// ready.
Snapshot Measure() noexcept;

}  // namespace granary
