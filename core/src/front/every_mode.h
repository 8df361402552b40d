// For tests that run with ready lists, without them, and with ready lists on trial.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "arch/anchor.h"

namespace granary {

inline void PrintTo(ReadyLists which, std::ostream* to) {
  static constexpr const char* kNames[] = {"Never", "Always", "OnTrial"};
  *to << kNames[static_cast<size_t>(which)];
}

inline auto EveryMode() {
  return testing::Values(ReadyLists::kNever, ReadyLists::kAlways, ReadyLists::kOnTrial);
}

}  // namespace granary
