// The code to which a signal handler returns. The kernel's own tables for it lead elsewhere on some
// versions, musl has none, so it is recognised by its instructions.
#pragma once

#include <cstdint>

#include "unwind/rule.h"
#include "unwind/tables.h"

namespace granary::unwind {

// More than the instructions take.
inline constexpr uintptr_t kSignalReturnBytes = 16;

// False if the code at `pc`, in that module, is something else.
bool FindSignalReturn(const Tables& tables, uintptr_t pc, Rule* rule) noexcept;

}  // namespace granary::unwind
