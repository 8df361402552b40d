// Checks that are always on, and checks of debug builds. A failed check ends the process with one
// sentence; both forms type-check in every build.
#pragma once

#include <cstddef>

namespace granary {

// Prints "granary: <sentence>" to stderr and aborts. Defined by the entry layer (and by tests).
[[noreturn]] void Die(const char* sentence) noexcept;

// Prints to stderr. Defined beside Die.
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
