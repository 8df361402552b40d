// Free memory is zero in a hardened heap: a read after free finds nothing, and a write after free
// leaves a trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace granary::hardened {

// Whether `bytes` bytes at p are zero; both are multiples of 8.
inline bool IsZero(const char* p, size_t bytes) {
  const auto* const words = reinterpret_cast<const uint64_t*>(p);
  const size_t count = bytes / sizeof(uint64_t);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t any = 0;
    for (size_t k = 0; k < 8; ++k) any |= words[i + k];
    if (any != 0) return false;
  }
  uint64_t rest = 0;
  for (; i < count; ++i) rest |= words[i];
  return rest == 0;
}

// Makes them zero. Does not write to a whole page that is zero, as it may be untouched.
inline void MakeZero(char* p, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kMinOsPage) {
    const size_t part = bytes - at < kMinOsPage ? bytes - at : kMinOsPage;
    if (part < kMinOsPage || !IsZero(p + at, part)) __builtin_memset(p + at, 0, part);
  }
}

}  // namespace granary::hardened
