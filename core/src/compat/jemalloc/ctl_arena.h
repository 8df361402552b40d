// The names of mallctl that begin with arena., arenas. and stats.arenas.
#pragma once

#include <cstdint>

#include "compat/jemalloc/ctl_table.h"

namespace granary::jemalloc {

// Return the result of mallctl, or kOtherReader for other names. `given` is the new value, for
// names whose old value depends on it.
int ReadArena(const Found& f, uint64_t given, uint64_t* out) noexcept;
int WriteArena(const Found& f, uint64_t value) noexcept;
int CallArena(const Found& f) noexcept;

}  // namespace granary::jemalloc
