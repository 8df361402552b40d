// Where the call frame information of one module lies in memory.
#pragma once

#include <cstdint>

namespace granary::unwind {

struct Tables {
  uintptr_t begin = 0, end = 0;  // nothing outside is read
  uintptr_t header = 0;          // of its .eh_frame_hdr
  // Rows to use instead of those of that header (eh_frame_index.h). They, too, are relative to
  // `header`.
  uintptr_t rows = 0;
  uint64_t count = 0;
};

}  // namespace granary::unwind
