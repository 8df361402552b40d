// The rule that a module's call frame information (.eh_frame, found by .eh_frame_hdr) gives for one
// place in its code. Whatever the tables hold, it ends, and reads nothing beyond them.
#pragma once

#include <cstdint>

#include "unwind/rule.h"
#include "unwind/tables.h"

namespace granary::unwind {

Rule FindRule(const Tables& tables, uintptr_t pc) noexcept;

}  // namespace granary::unwind
