// Code that no table describes: hand-written code, and code generated at run time.
#include <sys/mman.h>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

// A function that returns directly after the call needs no guess (epilogue_test.cc).
#if defined(__x86_64__)
__asm__(
    ".text\n.globl CallWithFramePointer, CallWithout\n"
    ".type CallWithFramePointer, @function\nCallWithFramePointer:\n"
    "  pushq %rbp\n  movq %rsp, %rbp\n  callq *%rdi\n  nop\n  popq %rbp\n  retq\n"
    ".size CallWithFramePointer, . - CallWithFramePointer\n"
    ".type CallWithout, @function\nCallWithout:\n"
    "  subq $24, %rsp\n  callq *%rdi\n  nop\n  addq $24, %rsp\n  retq\n"
    ".size CallWithout, . - CallWithout\n");
constexpr unsigned char kCall[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x90, 0x5d, 0xc3};
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl CallWithFramePointer, CallWithout\n"
    ".type CallWithFramePointer, %function\nCallWithFramePointer:\n"
    "  stp x29, x30, [sp, #-16]!\n  mov x29, sp\n  blr x0\n  ldp x29, x30, [sp], #16\n  ret\n"
    ".size CallWithFramePointer, . - CallWithFramePointer\n"
    ".type CallWithout, %function\nCallWithout:\n"
    "  str x30, [sp, #-32]!\n  blr x0\n  ldr x30, [sp], #32\n  ret\n"
    ".size CallWithout, . - CallWithout\n");
constexpr unsigned char kCall[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
                                   0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#endif

extern "C" void CallWithFramePointer(void (*function)());
extern "C" void CallWithout(void (*function)());

namespace {

using granary::unwind::Stop;

Stack g_seen;

void WalkHere() {
  WalkFrom(granary::unwind::Here(), &g_seen);
  ++g_comparisons;
}

#if defined(__x86_64__)
constexpr bool kGuessesOnlyOnce = true;
#else
// From there on the walk uses only frame records, which the functions of this program may lack.
constexpr bool kGuessesOnlyOnce = false;
#endif

// The expected frames: the caller of WalkHere, then the frame that is found without a table, then
// the frames of this function's callers, as in the reference.
__attribute__((noinline)) void ExpectGuess(void (*call)(void (*)())) {
  Stack own;
  call(WalkHere);
  AskReference(&own);
  CHECK(g_seen.result.stop == Stop::kOutermost && g_seen.result.guessed);
  CHECK(g_seen.count >= 2 && g_seen.count <= own.count + 1);
  CHECK(g_seen.count == own.count + 1 || !kGuessesOnlyOnce);
  size_t at = 1;
  for (size_t i = 2; i < g_seen.count; ++i) {
    while (at < own.count && own.frame[at] != g_seen.frame[i]) ++at;
    CHECK(at++ < own.count);
  }
}

void CompiledNow() {
  void* const code =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, kCall, sizeof kCall);
  __builtin___clear_cache(static_cast<char*>(code), static_cast<char*>(code) + sizeof kCall);
  CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
  ExpectGuess(reinterpret_cast<void (*)(void (*)())>(code));
  CHECK(munmap(code, 4096) == 0);
}

}  // namespace

void TestNoTables() {
  ExpectGuess(CallWithFramePointer);
  CompiledNow();
  // No table describes this function. The walk ends, or reports that it guessed.
  CallWithout(WalkHere);
  CHECK(g_seen.count >= 1);
  CHECK(g_seen.result.stop != Stop::kOutermost || g_seen.result.guessed);
}
