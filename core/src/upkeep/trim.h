// What gives memory up from all layers at once, on request.
#pragma once

#include <cstddef>

#include "base/compiler.h"

namespace granary {

// Gives everything free back to the system; returns the bytes given back.
GRANARY_SELDOM size_t Trim() noexcept;

// Sends what the caches and the depot hold to the slabs, whose checks find blocks freed twice.
void FlushCaches() noexcept;

}  // namespace granary
