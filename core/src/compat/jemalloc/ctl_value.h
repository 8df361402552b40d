// What the readers of mallctl's names share.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace granary::jemalloc {

// The result of a reader that does not know the name: another one does.
inline constexpr int kOtherReader = -1;

inline uint64_t Text(const char* text) { return AddressOf(text == nullptr ? "" : text); }

inline int Put(uint64_t value, uint64_t* out) {
  *out = value;
  return 0;
}

}  // namespace granary::jemalloc
