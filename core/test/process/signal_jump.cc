// A handler that leaves by siglongjmp whenever the program is not inside the heap, many thousand
// times, between calls in quick succession.
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include "churn.h"

namespace {

constexpr int kJumps = 5000;

sigjmp_buf g_top;
volatile sig_atomic_t g_outside = 0;
volatile sig_atomic_t g_jumps = 0;

void Jump(int) {
  if (g_outside == 0) return;
  g_outside = 0;
  g_jumps = g_jumps + 1;
  siglongjmp(g_top, 1);
}

void Start() {
  struct sigaction action = {};
  action.sa_handler = Jump;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  struct itimerval every = {{0, 100}, {0, 100}};
  CHECK(setitimer(ITIMER_REAL, &every, nullptr) == 0);
}

Churn<300, 16> g_churn(1);
volatile unsigned g_work = 0;

void WorkOutside() {
  g_outside = 1;
  for (int i = 0; i < 200; ++i) g_work = g_work + 1;
  g_outside = 0;
}

}  // namespace

int main() {
  Start();
  sigsetjmp(g_top, 1);
  while (g_jumps < kJumps) {
    g_churn.Step();
    WorkOutside();
  }
  struct itimerval never = {};
  CHECK(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  g_churn.Clear();
}
