// Measures the heap.
#pragma once

#include "stats/snapshot.h"

namespace granary {

// Other threads may allocate meanwhile: each figure is exact for some moment during the call. The
// heap must be ready.
Snapshot Measure() noexcept;

}  // namespace granary
