// Die and Warn for tests. Die prints the message to stderr and ends the process, so that
// EXPECT_DEATH can match it. Weak, because every test of a folder includes this header.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "base/misuse.h"

namespace granary {

// The texts that Warn received.
inline std::string& Warnings() {
  static std::string text;
  return text;
}

inline const char* NameOf(Misuse what) {
  switch (what) {
    case Misuse::kUnknownAddress:
      return "unknown address";
    case Misuse::kUnaligned:
      return "unaligned";
    case Misuse::kDoubleFree:
      return "double free";
    case Misuse::kOtherHeap:
      return "other heap";
    case Misuse::kWrongSize:
      return "wrong size";
    case Misuse::kWrittenBeyond:
      return "written beyond";
    case Misuse::kWrittenBefore:
      return "written before";
    case Misuse::kWrittenFree:
      return "written free";
  }
  return "unknown";
}

[[noreturn]] __attribute__((weak)) void Die(const char* message) noexcept {
  std::fprintf(stderr, "granary: %s\n", message);
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
