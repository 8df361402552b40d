// The critical sections of the front for the target architecture.
#pragma once

#include "base/compiler.h"

#if defined(__x86_64__)
#include "arch/rseq_x86_64.h"
#elif defined(__aarch64__)
#include "arch/rseq_aarch64.h"
#else
#error "Granary has critical sections for x86-64 and arm64: write arch/rseq_<machine>.h"
#endif

namespace granary::arch {

// As Pop below, but sets *due for a sample, so that the caller can record it later.
static inline void* Pop(uint64_t c, bool* due) {
  return Pop(c, [due](void* p) {
    *due = true;
    return p;
  });
}

}  // namespace granary::arch
