// The names of mallctl that begin with thread., except thread.prof.
#pragma once

#include <cstdint>

#include "compat/jemalloc/ctl_table.h"

namespace granary::jemalloc {

// Return the result of mallctl, or kOtherReader for other names.
int ReadThread(Handler handler, uint32_t argument, uint64_t* out) noexcept;
int WriteThread(Handler handler, uint64_t value) noexcept;
int CallThread(Handler handler) noexcept;

}  // namespace granary::jemalloc
