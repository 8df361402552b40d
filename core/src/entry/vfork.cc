// vfork, whose child may allocate. The child has the thread-local storage of the parent, but the
// kernel runs no restartable sequences for it: the index of the parent's cache no longer changes,
// while another thread may receive the same index. So the child uses a locked shared cache until
// the parent continues.

#include <errno.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "front/thread_settings.h"
#include "front/threads.h"

using namespace granary;

namespace {

// How the calling thread finds its cache. Both architectures return it in two registers, where the
// child cannot change it.
struct Areas {
  uintptr_t thread, settings;
};

}  // namespace

extern "C" {

__attribute__((visibility("hidden"), used)) Areas granary_before_vfork() {
  const Areas areas{thread_area, thread_settings.area};
  (HasThreadSettings() ? thread_settings.area : thread_area) = Threads::SharingArea();
  return areas;
}

// Runs in the parent, with the kernel's result.
__attribute__((visibility("hidden"), used)) long granary_after_vfork(long result, Areas areas) {
  thread_area = areas.thread;
  thread_settings.area = areas.settings;
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}
}

// The child runs on the parent's stack and leaves this function first. Values that the parent needs
// afterwards are therefore in registers, which the kernel preserves. The child jumps: a return
// would use an entry of the shadow stack that belongs to the parent.
#if defined(__x86_64__)
static_assert(SYS_vfork == 58);
asm(R"(
  .section .text.seldom,"ax",@progbits
  .globl vfork
  .type vfork, @function
vfork:
  .cfi_startproc
  endbr64
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call granary_before_vfork
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  movq %rax, %rsi
  popq %r8
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %r8
  movl $58, %eax
  syscall
  testq %rax, %rax
  jz 1f
  pushq %r8
  .cfi_remember_state
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rip, 0
  movq %rax, %rdi
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call granary_after_vfork
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
1:
  .cfi_restore_state
  notrack jmp *%r8
  .cfi_endproc
  .size vfork, .-vfork
  .previous
)");
#elif defined(__aarch64__)
static_assert(SYS_clone == 220);
// clone(CLONE_VM | CLONE_VFORK | SIGCHLD, the same stack)
asm(R"(
  .section .text.seldom,"ax",@progbits
  .globl vfork
  .type vfork, %function
vfork:
  .cfi_startproc
  hint 34  // bti c
  stp x29, x30, [sp, #-16]!
  .cfi_adjust_cfa_offset 16
  .cfi_rel_offset x29, 0
  .cfi_rel_offset x30, 8
  bl granary_before_vfork
  mov x9, x0
  mov x10, x1
  ldp x29, x30, [sp], #16
  .cfi_adjust_cfa_offset -16
  .cfi_restore x29
  .cfi_restore x30
  mov x0, #0x4111
  mov x1, #0
  mov x2, #0
  mov x3, #0
  mov x4, #0
  mov x8, #220
  svc #0
  cbz x0, 1f
  stp x29, x30, [sp, #-16]!
  .cfi_remember_state
  .cfi_adjust_cfa_offset 16
  .cfi_rel_offset x29, 0
  .cfi_rel_offset x30, 8
  mov x1, x9
  mov x2, x10
  bl granary_after_vfork
  ldp x29, x30, [sp], #16
1:
  .cfi_restore_state
  ret
  .cfi_endproc
  .size vfork, .-vfork
  .previous
)");
#endif
