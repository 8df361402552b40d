// Returns n + word, with one relaxed load of the word. For this a compiler emits a load and an add;
// the assembly below is one instruction, and the page map lookup of free() needs every one.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"

namespace granary::arch {

GRANARY_ALWAYS_INLINE uintptr_t AddRelaxed(uintptr_t n, const std::atomic<uintptr_t>& word) {
#if defined(__x86_64__) && !defined(GRANARY_THREAD_SANITIZER)
  static_assert(sizeof(word) == sizeof n);
  __asm__("addq %1, %0" : "+r"(n) : "m"(word) : "cc");
  return n;
#else
  return n + word.load(std::memory_order_relaxed);
#endif
}

}  // namespace granary::arch
