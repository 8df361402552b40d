// The names of mallctl that begin with prof., and thread.prof.
#pragma once

#include <cstdint>

#include "compat/jemalloc/ctl_table.h"

namespace granary::jemalloc {

// Return the result of mallctl: 0 or an errno. For prof.dump and prof.reset, a read is a call
// without a value.
int ReadProf(Handler handler, uint32_t argument, uint64_t* out) noexcept;
int WriteProf(Handler handler, uint32_t argument, uint64_t value) noexcept;

}  // namespace granary::jemalloc
