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
#define GRANARY_COLD __attribute__((cold, noinline))
