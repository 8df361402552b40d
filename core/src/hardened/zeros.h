// Free memory is zero in a hardened heap: a read after free finds nothing, and a write after free
// leaves a trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"

namespace granary::hardened {

// 16 bytes at any address that is a multiple of 8.
typedef uint64_t Pair __attribute__((vector_size(16), aligned(8), may_alias));

inline constexpr size_t kBlock = 4 * sizeof(Pair);

namespace zeros {

GRANARY_ALWAYS_INLINE Pair Load(const char* p) { return *reinterpret_cast<const Pair*>(p); }
// Volatile, as of a loop of stores the compiler would make a call of memset.
GRANARY_ALWAYS_INLINE void Clear(char* p) { *reinterpret_cast<volatile Pair*>(p) = Pair{}; }

GRANARY_ALWAYS_INLINE bool BlockIsZero(const char* p) {
  const Pair any = (Load(p) | Load(p + 16)) | (Load(p + 32) | Load(p + 48));
  return (any[0] | any[1]) == 0;
}
GRANARY_ALWAYS_INLINE void ClearBlock(char* p) {
  Clear(p);
  Clear(p + 16);
  Clear(p + 32);
  Clear(p + 48);
}

// Of fewer than kBlock bytes, 16 or more: how far the inner two of four pairs are from the ends. A
// loop would mispredict a branch in most calls, as small sizes alternate.
GRANARY_ALWAYS_INLINE size_t Inset(size_t bytes) { return bytes < 32 ? 0 : 16; }

}  // namespace zeros

// Whether `bytes` bytes at p are zero; both are multiples of 8. The last step looks at some bytes
// again, so that no shorter steps follow it.
GRANARY_ALWAYS_INLINE bool IsZero(const char* p, size_t bytes) {
  if (bytes >= kBlock) {
    for (size_t at = 0; at + kBlock < bytes; at += kBlock) {
      if (!zeros::BlockIsZero(p + at)) return false;
    }
    return zeros::BlockIsZero(p + bytes - kBlock);
  }
  if (bytes < 16) return bytes == 0 || *reinterpret_cast<const uint64_t*>(p) == 0;
  const size_t inset = zeros::Inset(bytes);
  const char* const last = p + bytes - 16;
  const Pair any =
      (zeros::Load(p) | zeros::Load(p + inset)) | (zeros::Load(last - inset) | zeros::Load(last));
  return (any[0] | any[1]) == 0;
}

// Makes them zero. For few bytes stores are faster than memset, of which the compiler makes one
// instruction.
GRANARY_ALWAYS_INLINE void MakeZero(char* p, size_t bytes) {
  constexpr size_t kFew = 512;
  if (bytes > kFew) {
    __builtin_memset(p, 0, bytes);
  } else if (bytes >= kBlock) {
    for (size_t at = 0; at + kBlock < bytes; at += kBlock) zeros::ClearBlock(p + at);
    zeros::ClearBlock(p + bytes - kBlock);
  } else if (bytes >= 16) {
    const size_t inset = zeros::Inset(bytes);
    char* const last = p + bytes - 16;
    zeros::Clear(p);
    zeros::Clear(p + inset);
    zeros::Clear(last - inset);
    zeros::Clear(last);
  } else if (bytes != 0) {
    *reinterpret_cast<uint64_t*>(p) = 0;
  }
}

// The same. Does not write to a whole page that is zero, as it may be untouched.
inline void MakePagesZero(char* p, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kMinOsPage) {
    const size_t part = bytes - at < kMinOsPage ? bytes - at : kMinOsPage;
    if (part < kMinOsPage || !IsZero(p + at, part)) MakeZero(p + at, part);
  }
}

}  // namespace granary::hardened
