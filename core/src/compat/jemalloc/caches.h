// Explicit thread caches. Free objects lie in the CPU caches whatever cache is named, so an
// explicit cache is only a number that is handed out and taken back.
#pragma once

#include <cstddef>

namespace granary::jemalloc {

bool CreateCache(unsigned* id) noexcept;
bool CacheExists(size_t id) noexcept;
bool DestroyCache(size_t id) noexcept;

}  // namespace granary::jemalloc
