// The kinds of misuse that end the program, and the misuse report of each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

enum class Misuse {
  kUnknownAddress,  // "<verb> of an address that Granary did not allocate: <p>; ..."
  kUnaligned,       // "<verb> of an unaligned address: <p> is inside an object of <n> bytes, ..."
  kDoubleFree,      // "double free of an object of <n> bytes at <p>; ..."
  kOtherHeap,       // "<verb> of an address that is not of this heap: <p>; ..."
  kWrongSize,       // "sized free of <m> bytes at <p>, the wrong size: ..."
  kWrittenBeyond,   // "write beyond an object of <n> bytes at <p>; ..."
  kWrittenBefore,   // "write before the object of <n> bytes at <p>; ..."
  kWrittenFree,     // "write after free: the free object of <n> bytes at <p> was changed ..."
};

struct MisuseReport {
  Misuse what;
  const char* verb = "free";  // the called function
  const void* p = nullptr;
  size_t size = 0;   // size of the object in bytes, where known
  size_t given = 0;  // the size that the caller passed
};

// Prints "granary: " and the misuse report to stderr and aborts. Allocates nothing.
[[noreturn]] void Die(const MisuseReport& report) noexcept;

// Prints the same and returns.
void Report(const MisuseReport& report) noexcept;

// Called with the report instead of printing it; if it returns, the program is aborted. For
// programs that set jemalloc's experimental.hooks.safety_check_abort.
using MisuseHook = void (*)(const char* report);
void SetMisuseHook(MisuseHook hook) noexcept;

// What the library has written to stderr, up to its size: a core file holds it.
struct KeptReports {
  uint64_t bytes;
  char text[8 * 1024 - sizeof(uint64_t)];
};
extern KeptReports kept_reports __attribute__((visibility("hidden")));

}  // namespace granary
