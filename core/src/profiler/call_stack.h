// The stack of the program's call into the library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "profiler/sampled_threads.h"
#include "samples/table.h"
#include "unwind/unwind.h"

// The ELF header of the file that holds this code, and the end of the shared library's code
// (cold.ld). The end is absent where the library is linked into a program.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden"), weak));
extern const char granary_code_end[] __attribute__((visibility("hidden"), weak));
}

namespace granary::profiler {

inline bool IsOfLibrary(uintptr_t frame) {
  return granary_code_end != nullptr &&
         frame - AddressOf(__ehdr_start) < AddressOf(granary_code_end) - AddressOf(__ehdr_start);
}

struct CallStack {
  uintptr_t frames[samples::kMostDepth + 16];
  size_t first = 0, end = 0;
  samples::Ends ends;

  GRANARY_ALWAYS_INLINE CallStack() {
    unwind::Result how;
    end = unwind::Walk(unwind::Here(), frames, sizeof frames / sizeof *frames, &how);
    while (first < end && IsOfLibrary(frames[first])) ++first;
    const size_t most = sampled_threads::MostDepth();
    const bool cut = how.stop == unwind::Stop::kFull || end - first > most;
    if (end - first > most) end = first + most;
    ends = {cut, !cut && how.stop != unwind::Stop::kOutermost, how.guessed};
  }
};

}  // namespace granary::profiler
