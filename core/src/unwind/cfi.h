// The rule that a module's call frame information (.eh_frame, found by .eh_frame_hdr) gives for one
// place in its code. Whatever the tables hold, it ends, and reads nothing beyond them.
#pragma once

#include <cstdint>

#include "unwind/rule.h"

namespace granary::unwind {

struct Tables {
  uintptr_t begin = 0, end = 0;  // nothing is read outside
  uintptr_t header = 0;          // of its .eh_frame_hdr
  // Instead of that header's rows: rows made by somebody else, relative to `header` likewise.
  uintptr_t rows = 0;
  uint64_t count = 0;
};

Rule FindRule(const Tables& tables, uintptr_t pc) noexcept;

}  // namespace granary::unwind
