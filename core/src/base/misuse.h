// The ways a program can misuse the allocator that end it, and the sentence each ends with.
#pragma once

#include <cstddef>

namespace granary {

enum class Misuse {
  kForeign,     // "<verb> of an address that Granary did not allocate: <p>; ..."
  kUnaligned,   // "<verb> of an unaligned address: <p> is inside an object of <n> bytes, ..."
  kDoubleFree,  // "double free of an object of <n> bytes at <p>; ..."
  kOtherHeap,   // "<verb> of an address that is not of this heap: <p>; ..."
  kWrongSize,   // "sized free of <m> bytes at <p>, the wrong size: ..."
};

struct MisuseReport {
  Misuse what;
  const char* verb = "free";  // the call that was made
  const void* p = nullptr;
  size_t size = 0;   // of the object, in bytes, where known
  size_t given = 0;  // the size that the caller passed
};

// Prints "granary: " and the sentence to stderr and aborts. Allocates nothing.
[[noreturn]] void Die(const MisuseReport& report) noexcept;

}  // namespace granary
