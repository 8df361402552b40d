// dlopen without RTLD_DEEPBIND, in the shared library only. A library that is opened with that flag
// looks into its own dependencies first and finds the C library's free there, before the allocator
// that was preloaded or linked: what the program allocated is then freed by another allocator. PHP
// before 8.5 opens all its extensions so, and dies at its start under any other malloc than the C
// library's.
#include <dlfcn.h>

#ifdef RTLD_DEEPBIND  // musl has none

#include "base/compiler.h"
#include "config/options.h"

namespace {

using Dlopen = void* (*)(const char*, int);

struct Next {
  Dlopen function;
  long flags;
};

}  // namespace

// Where the call goes on, and with which flags. Returned in two registers on both architectures.
extern "C" __attribute__((visibility("hidden"), used)) Next granary_next_dlopen(int flags) {
  static Dlopen next;
  Dlopen found = __atomic_load_n(&next, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen"));
    __atomic_store_n(&next, found, __ATOMIC_RELAXED);
  }
  return {found, granary::options.deepbind ? flags : flags & ~RTLD_DEEPBIND};
}

// A jump, not a call: the loader takes the caller's address to know whose RUNPATH and namespace
// count.
#if defined(__x86_64__)
asm(R"(
  .section .text.seldom,"ax",@progbits
  .globl dlopen
  .type dlopen, @function
dlopen:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  movl %esi, %edi
  call granary_next_dlopen
  popq %rdi
  .cfi_adjust_cfa_offset -8
  movl %edx, %esi
  jmp *%rax
  .cfi_endproc
  .size dlopen, .-dlopen
  .previous
)");
#elif defined(__aarch64__)
asm(R"(
  .section .text.seldom,"ax",@progbits
  .globl dlopen
  .type dlopen, %function
dlopen:
  .cfi_startproc
  hint 34  // bti c
  stp x0, x30, [sp, #-16]!
  .cfi_adjust_cfa_offset 16
  .cfi_rel_offset x30, 8
  mov w0, w1
  bl granary_next_dlopen
  mov x16, x0
  ldp x0, x30, [sp], #16
  .cfi_adjust_cfa_offset -16
  .cfi_restore x30
  br x16
  .cfi_endproc
  .size dlopen, .-dlopen
  .previous
)");
#endif

#endif  // RTLD_DEEPBIND
