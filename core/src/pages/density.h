// How densely the program will use fresh memory. Huge pages pay off only if nearly all of it is
// used: slabs fill up, but a medium object or a block may leave much of its last region untouched.
#pragma once

#include "base/bits.h"
#include "base/units.h"

namespace granary {

enum class Density : bool { kSparse, kDense };

// A block is dense if it leaves at most a quarter of its size untouched.
constexpr Density DensityOf(size_t bytes) {
  const size_t untouched = RoundUp(bytes, kTrackerBytes) - bytes;
  return untouched <= bytes / 4 ? Density::kDense : Density::kSparse;
}

}  // namespace granary
