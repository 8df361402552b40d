// Under sampled guards, a fault ends as it would without them: whatever handlers of SIGSEGV the
// program installed after the guards', called, took away again, or left by siglongjmp.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "../child.h"

extern "C" int granary_set_options(const char* text) __attribute__((weak));

namespace {

// Enough samples that the guards know a handler that was installed after them.
void Settle() {
  for (int i = 0; i < 200000; ++i) free(Hide(malloc(100)));
}

void Fault() { *static_cast<volatile char*>(Hide(reinterpret_cast<void*>(8))) = 1; }

struct sigaction Set(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction mine {
  }, found{};
  mine.sa_sigaction = handler;
  mine.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGSEGV, &mine, &found) == 0);
  Settle();
  return found;
}

void Call(const struct sigaction& found, int signal, siginfo_t* info, void* context) {
  if ((found.sa_flags & SA_SIGINFO) != 0) return found.sa_sigaction(signal, info, context);
  if (found.sa_handler == SIG_DFL) ::signal(signal, SIG_DFL);
}

// As Python's faulthandler once it is disabled.
void Nothing(int, siginfo_t*, void*) {}

void RestoresWhatItFound() {
  const struct sigaction found = Set(Nothing);
  CHECK(sigaction(SIGSEGV, &found, nullptr) == 0);
  Fault();
}

struct sigaction before_first, before_second;
void First(int signal, siginfo_t* info, void* context) {
  SayRaw("first ", 6);
  Call(before_first, signal, info, context);
}
void Second(int signal, siginfo_t* info, void* context) {
  SayRaw("second ", 7);
  Call(before_second, signal, info, context);
}

void CallsWhatItFound() {
  before_first = Set(First);
  before_second = Set(Second);
  Fault();
}

void RestoresTheFirstOfTwo() {
  before_first = Set(First);
  before_second = Set(Second);
  CHECK(sigaction(SIGSEGV, &before_second, nullptr) == 0);
  Settle();
  Fault();
}

// Installs its handler again and again, and keeps what it finds if it is not its own.
void InstallsItAgain() {
  for (int i = 0; i < 10; ++i) {
    const struct sigaction found = Set(First);
    if (found.sa_sigaction != First) before_first = found;
  }
  Fault();
}

sigjmp_buf back;
void Recover(int, siginfo_t*, void*) {
  SayRaw("recovered ", 10);
  siglongjmp(back, 1);
}

void RecoversEachTime() {
  Set(Recover);
  static int left = 5;
  while (left-- > 0) {
    if (sigsetjmp(back, 1) == 0) Fault();
  }
  signal(SIGSEGV, SIG_DFL);
  Fault();
}

void UseTheStack(int, siginfo_t*, void*) {
  char much[64 << 10];
  SayRaw("stack ", memset(Hide(much), 1, sizeof much) != nullptr ? 6 : 0);
  signal(SIGSEGV, SIG_DFL);
}

// The thread has an alternate stack for other signals, and the handler does not ask for it.
void KeepsItsStack() {
  constexpr size_t kAlternate = 64 << 10;
  char* const below = static_cast<char*>(
      mmap(nullptr, 2 * kAlternate, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(below != MAP_FAILED);
  CHECK(mprotect(below + kAlternate, kAlternate, PROT_READ | PROT_WRITE) == 0);
  stack_t stack{};
  stack.ss_sp = below + kAlternate;
  stack.ss_size = kAlternate;
  CHECK(sigaltstack(&stack, nullptr) == 0);
  Set(UseTheStack);
  Fault();
}

// Runs `program` in a child, which must die by SIGSEGV after it said `expected`.
void Expect(void (*program)(), const char* expected) {
  static char text[1 << 16];
  const auto with_guards = [program] {
    CHECK(granary_set_options("guard_sample:20000") == 0);
    program();
  };
  const int status = RunAndListen(with_guards, text, sizeof text);
  if (strcmp(text, expected) != 0) SayRaw(text, strlen(text));
  CHECK(strcmp(text, expected) == 0);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

}  // namespace

int main() {
  if (granary_set_options == nullptr) SkipTest("needs the library");
  Expect(CallsWhatItFound, "second first ");
  Expect(RestoresTheFirstOfTwo, "first ");
  Expect(InstallsItAgain, "first ");
  Expect(RecoversEachTime, "recovered recovered recovered recovered recovered ");
  Expect(KeepsItsStack, "stack ");
  Expect(RestoresWhatItFound, "");
}
