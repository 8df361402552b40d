// Explicit thread caches. Objects live in the caches of the CPUs whichever cache is named, so these
// are numbers that are given out and taken back.
#pragma once

#include <cstddef>

namespace granary::jemalloc {

bool CreateCache(unsigned* id) noexcept;
bool CacheExists(size_t id) noexcept;
bool DestroyCache(size_t id) noexcept;

}  // namespace granary::jemalloc
