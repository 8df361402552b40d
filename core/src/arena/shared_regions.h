// Extent hooks of arena 0, the heap that all threads share. What it has stays where it is; its
// further regions come from the hooks.
#pragma once

#include "arena/extent_hooks.h"

namespace granary {

// From now on; SharedHooks() for the kernel. The hooks may not allocate. False if the system
// refuses.
bool SetHooksOfSharedHeap(ExtentHooks* hooks) noexcept;
ExtentHooks* HooksOfSharedHeap() noexcept;

}  // namespace granary
