// Derives the rule for one address from a module's call frame information (.eh_frame, found by
// .eh_frame_hdr). Whatever the tables contain, it terminates and reads nothing outside them.
#pragma once

#include <cstdint>

#include "unwind/rule.h"
#include "unwind/tables.h"

namespace granary::unwind {

Rule FindRule(const Tables& tables, uintptr_t pc) noexcept;

}  // namespace granary::unwind
