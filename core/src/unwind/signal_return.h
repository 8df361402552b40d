// The code to which a signal handler returns. On some versions the kernel's own tables for it are
// wrong, and musl has none, so the unwinder recognises the instructions.
#pragma once

#include <cstdint>

#include "unwind/rule.h"
#include "unwind/tables.h"

namespace granary::unwind {

// At least the size of the instructions.
inline constexpr uintptr_t kSignalReturnBytes = 16;

// False if the code at `pc`, in that module, is other code.
bool FindSignalReturn(const Tables& tables, uintptr_t pc, Rule* rule) noexcept;

}  // namespace granary::unwind
