// The profile as text of the version that is called heap_v2, in one of its two forms.
#pragma once

#include <cstdint>

namespace granary {

enum class JeprofForm : uint8_t {
  kJemalloc,    // jeprof reads it, and what else reads the files of jemalloc
  kGperftools,  // jeprof and google/pprof read it
};

// To a new file, or over an old one; false if there is no profile or the file cannot be written.
bool WriteJeprof(const char* path, JeprofForm form) noexcept;

}  // namespace granary
