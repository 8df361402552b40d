// One name for each attribute and branch hint.
#pragma once

#include <cstddef>
#include <cstdint>

#if __cplusplus < 202002L
#error "Granary needs C++20: compile with -std=c++20"
#endif

// Defined under the thread sanitizer, by GCC's name and by clang's.
#if defined(__SANITIZE_THREAD__)
#define GRANARY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GRANARY_THREAD_SANITIZER 1
#endif
#endif

#define GRANARY_EXPORT __attribute__((visibility("default")))
#define GRANARY_NOINLINE __attribute__((noinline))
#define GRANARY_ALWAYS_INLINE inline __attribute__((always_inline))
// Starts a function on a cache line of its own. Otherwise the speed of a short hot function would
// depend on the code before it.
#define GRANARY_HOT __attribute__((aligned(64)))
#define GRANARY_COLD __attribute__((cold, noinline))
// Puts functions that most processes never call apart from the others (core/cold.ld).
#define GRANARY_SELDOM __attribute__((section(".text.seldom"), noinline))
