// The functions behind the *allocx symbols.
#pragma once

#include <cstddef>

#include "compat/jemalloc/flags.h"

namespace granary::jemalloc {

void* Allocate(size_t size, Flags flags) noexcept;
void* Reallocate(void* p, size_t size, Flags flags) noexcept;
// Tries size + extra bytes, then at least `size`. Returns the size that p has after that.
size_t ResizeInPlace(void* p, size_t size, size_t extra, Flags flags) noexcept;
void Free(void* p, Flags flags) noexcept;
void FreeSized(void* p, size_t size, Flags flags) noexcept;
size_t GoodSize(size_t size, Flags flags) noexcept;

}  // namespace granary::jemalloc
