// Free memory is zero in a hardened heap: a read after free finds nothing, and a write after free
// leaves a trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace granary::hardened {

// 16 bytes at any address that is a multiple of 8.
typedef uint64_t Pair __attribute__((vector_size(16), aligned(8), may_alias));

// Whether `bytes` bytes at p are zero; both are multiples of 8.
inline bool IsZero(const char* p, size_t bytes) {
  size_t at = 0;
  const auto pair = [&](size_t i) { return reinterpret_cast<const Pair*>(p + at)[i]; };
  for (; at + 64 <= bytes; at += 64) {
    const Pair any = (pair(0) | pair(1)) | (pair(2) | pair(3));
    if ((any[0] | any[1]) != 0) return false;
  }
  Pair any{};
  for (; at + 16 <= bytes; at += 16) any |= pair(0);
  const uint64_t rest = at < bytes ? *reinterpret_cast<const uint64_t*>(p + at) : 0;
  return (any[0] | any[1] | rest) == 0;
}

// Makes them zero. Does not write to a whole page that is zero, as it may be untouched. For few
// bytes stores are faster than memset, of which the compiler makes one instruction.
inline void MakeZero(char* p, size_t bytes) {
  if (bytes <= 512) {
    size_t at = 0;
    for (; at + 16 <= bytes; at += 16) *reinterpret_cast<volatile Pair*>(p + at) = Pair{};
    if (at < bytes) *reinterpret_cast<uint64_t*>(p + at) = 0;
    return;
  }
  for (size_t at = 0; at < bytes; at += kMinOsPage) {
    const size_t part = bytes - at < kMinOsPage ? bytes - at : kMinOsPage;
    if (part < kMinOsPage || !IsZero(p + at, part)) __builtin_memset(p + at, 0, part);
  }
}

}  // namespace granary::hardened
