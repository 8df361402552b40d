// Bare system calls: those of system_calls.def, and no others.
#pragma once

#include <sys/resource.h>  // musl's renames prlimit64 by a macro: in every file, or in none
#include <sys/syscall.h>

#include "base/bits.h"
#include "base/units.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_rseq
#if defined(__aarch64__)
#define SYS_rseq 293
#else
#define SYS_rseq 334
#endif
#endif

namespace granary {

namespace call {
enum Number : long {
#define SYSTEM_CALL(name, purpose) name = SYS_##name,
#include "os/system_calls.def"
#undef SYSTEM_CALL
};
}  // namespace call

// Makes a system call and keeps errno, because free() must not change it.
inline long Call(call::Number number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                 long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#else
#error "Granary knows the system calls of x86-64 and arm64 only: add yours here"
#endif
}

inline long Bits(const void* p) { return static_cast<long>(AddressOf(p)); }
inline bool Failed(long result) { return result < 0 && result > -4096; }

}  // namespace granary
