// DWARF's numbers of the registers of registers.h.
#pragma once

#include <cstdint>

#include "unwind/rule.h"

namespace granary::unwind {

#if defined(__x86_64__)
inline constexpr uint64_t kSpNumber = 7, kFpNumber = 6, kExtraNumber = 3, kPcNumber = 16;
#elif defined(__aarch64__)
// On arm64 the return address is an ordinary register, and the extra register.
inline constexpr uint64_t kSpNumber = 31, kFpNumber = 29, kExtraNumber = 30, kPcNumber = 30;
#endif

inline bool BaseOf(uint64_t number, Base* base) noexcept {
  if (number == kSpNumber) {
    *base = Base::kSp;
  } else if (number == kFpNumber) {
    *base = Base::kFp;
  } else if (number == kExtraNumber) {
    *base = Base::kExtra;
  } else {
    return false;
  }
  return true;
}

}  // namespace granary::unwind
