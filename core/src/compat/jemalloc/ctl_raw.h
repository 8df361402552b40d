// The names of mallctl whose values are structures.
#pragma once

#include <cstddef>

#include "compat/jemalloc/ctl_table.h"

namespace granary::jemalloc {

int CallRaw(const Found& f, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept;
int CallArenaName(size_t arena, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept;

// Whether moving the object at p helps to empty slabs. Redis calls this for each object that it can
// move.
bool WorthMoving(const void* p) noexcept;

}  // namespace granary::jemalloc
