// The registers that a walk follows: they hold or lead to the frames of callers.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace granary::unwind {

struct Registers {
  uintptr_t pc = 0;
  uintptr_t sp = 0;
  uintptr_t fp = 0;     // rbp; x29
  uintptr_t extra = 0;  // rbx, which few functions use as a frame pointer; x30, the return address
};

// The registers of the function that inlines this call, at this point.
GRANARY_ALWAYS_INLINE Registers Here() noexcept {
  Registers here;
#if defined(__x86_64__)
  __asm__ volatile(
      "leaq 0f(%%rip), %%rax\n0:\n\t"
      "movq %%rax, %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2\n\tmovq %%rbx, %3"
      : "=m"(here.pc), "=m"(here.sp), "=m"(here.fp), "=m"(here.extra)
      :
      : "rax");
#elif defined(__aarch64__)
  __asm__ volatile(
      "adr x9, .\n\tstr x9, %0\n\tmov x9, sp\n\tstr x9, %1\n\tstr x29, %2\n\tstr x30, %3"
      : "=m"(here.pc), "=m"(here.sp), "=m"(here.fp), "=m"(here.extra)
      :
      : "x9");
#else
#error "Granary knows the registers of x86-64 and arm64 only: add yours here"
#endif
  return here;
}

}  // namespace granary::unwind
