// Stacks that the program allocates itself.
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../check.h"
#include "../child.h"
#include "compare.h"
#include "shapes.h"

namespace {

constexpr size_t kBytes = 1 << 17;

// Between two inaccessible pages.
char* NewStack() {
  char* const whole = static_cast<char*>(
      mmap(nullptr, kBytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(whole != MAP_FAILED);
  CHECK(mprotect(whole + 4096, kBytes, PROT_READ | PROT_WRITE) == 0);
  return whole + 4096;
}

void DeleteStack(char* stack) { CHECK(munmap(stack - 4096, kBytes + 8192) == 0); }

ucontext_t g_main, g_other;

__attribute__((noinline)) void Coroutine(int depth) {
  if (depth > 0) {
    Coroutine(depth - 1);
  } else {
    ExpectSame("coroutine");
    swapcontext(&g_other, &g_main);
    ExpectSame("coroutine again");
  }
  Hide(&depth);
}

void Start() { Coroutine(10); }

void SwitchStacks() {
  char* const stack = NewStack();
  CHECK(getcontext(&g_other) == 0);
  g_other.uc_stack.ss_sp = stack;
  g_other.uc_stack.ss_size = kBytes;
  g_other.uc_link = &g_main;
  makecontext(&g_other, Start, 0);
  CHECK(swapcontext(&g_main, &g_other) == 0);
  ExpectSame("between two coroutines");
  CHECK(swapcontext(&g_main, &g_other) == 0);
  DeleteStack(stack);
}

int OnOwnStack(void*) {
  ExpectSame("clone");
  return 0;
}

void Clone() {
  char* const stack = NewStack();
  const pid_t child = clone(OnOwnStack, stack + kBytes, CLONE_VM | SIGCHLD, nullptr);
  // Emulators do not support such a child.
  if (child < 0) {
    CHECK(errno == EINVAL);
  } else {
    ExpectCleanChild(child);
  }
  DeleteStack(stack);
}

void Fork() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    ExpectSame("child of a fork");
    _exit(0);
  }
  ExpectCleanChild(child);
}

}  // namespace

void TestStacks() {
  for (int i = 0; i < 20; ++i) SwitchStacks();
  Clone();
  Fork();
}
