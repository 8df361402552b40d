// fork in a signal handler of a program with one thread, the pattern of glibc's
// malloc/tst-mallocfork: the signal may arrive while the program forks, and in this test also while
// it allocates.
#include <signal.h>
#include <sys/time.h>

#include "../child.h"
#include "churn.h"

namespace {

constexpr int kRounds = 300;

volatile sig_atomic_t g_handled = 0;

void ForkInHandler(int) {
  const int error = errno;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(0);
  ExpectCleanChild(child);
  g_handled = g_handled + 1;
  errno = error;
}

// The signal of a child arrives when the parent is about to return from its own fork.
void SignalFromChildren() {
  for (int i = 0; i < kRounds; ++i) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      kill(parent, SIGALRM);
      _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) != child) CHECK(errno == EINTR);
    ExpectCleanEnd(status);
  }
  CHECK(g_handled == kRounds);
}

// The signal of a timer arrives at any point.
void SignalWhileAllocating() {
  g_handled = 0;
  itimerval often{};
  often.it_interval.tv_usec = often.it_value.tv_usec = 2000;
  CHECK(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  Churn<300, 20> churn(5);
  while (g_handled < kRounds) churn.Steps(10);
  const itimerval never{};
  CHECK(setitimer(ITIMER_REAL, &never, nullptr) == 0);
}

}  // namespace

int main() {
  free(malloc(4));
  struct sigaction action {};
  action.sa_handler = ForkInHandler;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  SignalFromChildren();
  SignalWhileAllocating();
}
