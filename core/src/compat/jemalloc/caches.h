// Explicit thread caches. Free objects are in the CPU caches whatever cache a call names, so an
// explicit cache is only a number that a program allocates and frees.
#pragma once

#include <cstddef>

namespace granary::jemalloc {

bool CreateCache(unsigned* id) noexcept;
bool CacheExists(size_t id) noexcept;
bool DestroyCache(size_t id) noexcept;

}  // namespace granary::jemalloc
