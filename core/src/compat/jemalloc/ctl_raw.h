// The names of mallctl whose values are structures.
#pragma once

#include <cstddef>

#include "compat/jemalloc/ctl_table.h"

namespace granary::jemalloc {

int CallRaw(const Found& f, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept;
int CallArenaName(size_t arena, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept;

// Whether a move of the object at p would help to empty slabs: Redis asks before each.
bool WorthMoving(const void* p) noexcept;

}  // namespace granary::jemalloc
