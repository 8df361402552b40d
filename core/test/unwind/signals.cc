// Handlers on the thread's stack, on another stack, and inside each other.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

namespace {

void Install(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  CHECK(sigaction(signal, &action, nullptr) == 0);
}

void Inner(int) { ExpectSame("handler in a handler"); }

void Outer(int) {
  ExpectSame("handler");
  raise(SIGUSR2);
  ExpectSame("handler again");
}

volatile sig_atomic_t g_ticks = 0;

// A timer may interrupt any instruction, also hand-written code of the C library with wrong tables.
// There the walker may stop, but may not report other frames than the reference.
void Tick(int) {
  ExpectPrefix("timer");
  g_ticks = g_ticks + 1;
}

int CompareInts(const void* a, const void* b) {
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

void Work() {
  int numbers[200];
  char text[200];
  uint64_t seed = 1;
  for (int& number : numbers) number = static_cast<int>(NextRandom(&seed));
  qsort(numbers, 200, sizeof numbers[0], CompareInts);
  snprintf(text, sizeof text, "%d %s %f", numbers[0], "text", 1.5);
  Hide(text);
}

void InterruptWork() {
  Install(SIGPROF, Tick, SA_RESTART);
  const itimerval often = {{0, 1000}, {0, 1000}}, never = {};
  CHECK(setitimer(ITIMER_PROF, &often, nullptr) == 0);
  while (g_ticks < 50) Work();
  CHECK(setitimer(ITIMER_PROF, &never, nullptr) == 0);
}

}  // namespace

void TestSignals() {
  Install(SIGUSR1, Outer, 0);
  Install(SIGUSR2, Inner, 0);
  raise(SIGUSR1);
  stack_t other = {};
  other.ss_size = 1 << 17;
  other.ss_sp = malloc(other.ss_size);
  CHECK(sigaltstack(&other, nullptr) == 0);
  Install(SIGUSR1, Outer, SA_ONSTACK);
  raise(SIGUSR1);
  Install(SIGUSR2, Inner, SA_ONSTACK);
  raise(SIGUSR1);
  InterruptWork();
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  CHECK(sigaltstack(&none, nullptr) == 0);
  free(other.ss_sp);
}
