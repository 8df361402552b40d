// What the entry layer defines for the library, for tests: the sentence goes to stderr and the
// process ends, so that EXPECT_DEATH can match it. Weak, for every test of a folder includes it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "base/misuse.h"

namespace granary {

// What Warn was given, for tests of warnings.
inline std::string& Warnings() {
  static std::string text;
  return text;
}

inline const char* NameOf(Misuse what) {
  switch (what) {
    case Misuse::kForeign:
      return "foreign";
    case Misuse::kUnaligned:
      return "unaligned";
    case Misuse::kDoubleFree:
      return "double free";
    case Misuse::kOtherHeap:
      return "other heap";
    case Misuse::kWrongSize:
      return "wrong size";
  }
  return "unknown";
}

[[noreturn]] __attribute__((weak)) void Die(const char* sentence) noexcept {
  std::fprintf(stderr, "granary: %s\n", sentence);
  std::abort();
}

[[noreturn]] __attribute__((weak)) void Die(const MisuseReport& report) noexcept {
  std::fprintf(stderr, "granary: misuse: %s: %s\n", report.verb, NameOf(report.what));
  std::abort();
}

__attribute__((weak)) void Warn(const char* text, size_t bytes) noexcept {
  Warnings().append(text, bytes);
}

}  // namespace granary
