// The addresses of one module's call frame information.
#pragma once

#include <cstdint>

namespace granary::unwind {

struct Tables {
  uintptr_t begin = 0, end = 0;  // bounds of all reads
  uintptr_t header = 0;          // address of its .eh_frame_hdr
  // Rows to use instead of the rows of that header (eh_frame_index.h). They are also relative to
  // `header`.
  uintptr_t rows = 0;
  uint64_t count = 0;
};

}  // namespace granary::unwind
