// Checks that are always on, and checks of debug builds. A failed check prints one message and ends
// the process. Both forms type-check in every build.
#pragma once

#include <cstddef>

namespace granary {

// Prints "granary: <message>" to stderr and aborts. Defined in misuse/misuse.cc (and by tests).
[[noreturn]] void Die(const char* message) noexcept;

// Prints `text` to stderr. Defined in the same file as Die.
void Warn(const char* text, size_t bytes) noexcept;

}  // namespace granary

#define GRANARY_STRING_(x) #x
#define GRANARY_STRING(x) GRANARY_STRING_(x)

#define GRANARY_CHECK(condition)                                             \
  (__builtin_expect(static_cast<bool>(condition), 1)                         \
       ? static_cast<void>(0)                                                \
       : ::granary::Die("internal check failed: " #condition " at " __FILE__ \
                        ":" GRANARY_STRING(__LINE__)))

#ifdef NDEBUG
#define GRANARY_DCHECK(condition) GRANARY_CHECK(true || (condition))
#else
#define GRANARY_DCHECK(condition) GRANARY_CHECK(condition)
#endif
