// Writes the profile as text in the format heap_v2, in one of its two forms.
#pragma once

#include <cstdint>

namespace granary {

enum class JeprofForm : uint8_t {
  kJemalloc,    // for jeprof and other readers of jemalloc's files
  kGperftools,  // for jeprof and google/pprof
};

// Writes to a new file, or overwrites an existing one. False if there is no profile or the file
// cannot be written.
bool WriteJeprof(const char* path, JeprofForm form) noexcept;

}  // namespace granary
