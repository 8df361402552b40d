// Properties of the processor that the allocator adapts to.
#pragma once

#include "base/compiler.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace granary::arch {

// Whether store-to-load forwarding is so fast that malloc can pop the pointer that free has just
// pushed. Measurements (docs/decisions, 0015) show this for AMD's families 19h and 1Ah (Zen 3 to
// 5), not for Intel's Xeons.
inline bool ForwardsStoresFast() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kAmd[] = {0x68747541, 0x69746e65, 0x444d4163};  // "AuthenticAMD"
  unsigned highest, b, c, d;
  if (__get_cpuid(0, &highest, &b, &c, &d) == 0 || highest < 1) return false;
  if (b != kAmd[0] || d != kAmd[1] || c != kAmd[2]) return false;
  unsigned version = 0;
  __get_cpuid(1, &version, &b, &c, &d);
  const unsigned family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
  return family >= 0x19;
#else
  return false;
#endif
}

}  // namespace granary::arch
