// The report of a misuse that a sampled guard found. docs/guides/debug.md
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/guard_pool.h"

namespace granary::profiler {

// Prints to stderr: "granary: <what> at <p>, ...", and the stacks of the access, the free and the
// allocation. `o` may be null.
void ReportGuard(const char* what, const void* p, const GuardedObject* o,
                 const GuardStack& access) noexcept;

}  // namespace granary::profiler
