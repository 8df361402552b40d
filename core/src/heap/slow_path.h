// What the files of this folder share.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "layers/layers.h"

namespace granary {
class Arena;
}

namespace granary::heap {

// A new large block. Address space of `reserve` bytes is kept for it to grow.
void* AllocateLarge(size_t size, size_t alignment, size_t reserve, bool zero) noexcept;
// Fills a new block as the options `zero` and `junk` ask; either option disables the caches.
void* Filled(void* p, size_t size) noexcept;
// Sets errno, or ends the program if option abort_on_oom is set; returns nullptr.
GRANARY_COLD void* Refused(size_t size) noexcept;

// The calls of a thread with settings of its own (front/thread_settings.h).
GRANARY_COLD void* AllocateSpecial(size_t size, size_t alignment, bool zero) noexcept;
GRANARY_COLD void FreeSpecial(void* p) noexcept;
GRANARY_COLD void* ReallocateSpecial(void* p, size_t size) noexcept;

}  // namespace granary::heap
