// Attributes and branch hints under one name each.
#pragma once

#include <cstddef>
#include <cstdint>

#if __cplusplus < 202002L
#error "Granary needs C++20: compile with -std=c++20"
#endif

#define GRANARY_EXPORT __attribute__((visibility("default")))
#define GRANARY_NOINLINE __attribute__((noinline))
#define GRANARY_ALWAYS_INLINE inline __attribute__((always_inline))
// On a cache line of its own: where the few instructions of a hot call begin within one would
// otherwise depend on whatever code stands before it.
#define GRANARY_HOT __attribute__((aligned(64)))
#define GRANARY_COLD __attribute__((cold, noinline))
// What most processes never call: apart from what they do (core/cold.ld).
#define GRANARY_SELDOM __attribute__((section(".text.seldom"), noinline))
