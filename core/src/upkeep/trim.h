// Frees memory of all layers on request.
#pragma once

#include <cstddef>

#include "base/compiler.h"

namespace granary {

// Purges all free memory; returns the bytes purged.
GRANARY_SELDOM size_t Trim() noexcept;
// The same, and unmaps free address space even with option retain.
GRANARY_SELDOM size_t TrimAndUnmap() noexcept;

// Flushes the caches and the depot to the slabs, whose checks find double frees.
void FlushCaches() noexcept;

}  // namespace granary
