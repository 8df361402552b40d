// A trap after every instruction: prologues, epilogues, PLT stubs, lazy binding, hand-written code
// of the C library and of the kernel. x86-64 only: on other machines a program cannot trap itself.
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

#if defined(__x86_64__)
namespace {

unsigned g_steps, g_complete;

void Step(int) {
  const Stack stack = ExpectPrefix("step");
  ++g_steps;
  g_complete += stack.result.stop == granary::unwind::Stop::kOutermost;
}

// Sets the flags with which a handler returns: setting them in place would need the stack.
void Flip(int, siginfo_t*, void* context) {
  constexpr greg_t kTrap = 0x100;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] ^= kTrap;
}

int CompareInts(const void* a, const void* b) {
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

__attribute__((noinline)) void Work(char* text, size_t size) {
  int numbers[] = {5, 3, 4, 1};
  qsort(numbers, 4, sizeof numbers[0], CompareInts);
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(text, size, "%d %ld", numbers[0], static_cast<long>(now.tv_sec));
  memmove(text + 1, text, strlen(text));
  // The first call: bound now, if binding is lazy.
  Hide(reinterpret_cast<void*>(static_cast<uintptr_t>(labs(atol(text)))));
}

}  // namespace

void TestEveryStep() {
  struct sigaction step = {}, flip = {};
  step.sa_handler = Step;
  flip.sa_sigaction = Flip;
  flip.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGTRAP, &step, nullptr) == 0 && sigaction(SIGUSR1, &flip, nullptr) == 0);
  char text[128] = {};
  raise(SIGUSR1);
  Work(text, sizeof text);
  raise(SIGUSR1);
  printf("%u of %u steps with a complete stack\n", g_complete, g_steps);
  CHECK(g_steps > 500);
  CHECK(g_complete * 1000 >= g_steps * 990);
}
#else
void TestEveryStep() {}
#endif
