// _Fork, which runs no handlers: called by a program of several threads, also in a signal handler
// that interrupts malloc or free. The child only ends.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>

#include "../child.h"
#include "churn.h"

#pragma weak _Fork

namespace {

constexpr int kSenders = 5;
constexpr int kSteps = 700;
constexpr time_t kSeconds = 30;  // enough steps for a machine that needs so long

std::atomic<bool> g_stop;
std::atomic<int> g_handled;
pthread_t g_main;

void ForkAndWait() {
  const pid_t child = _Fork();
  CHECK(child >= 0);
  if (child == 0) _exit(0);
  int status = 0;
  while (waitpid(child, &status, 0) != child) CHECK(errno == EINTR);
  CHECK(status == 0);
}

void OnSignal(int) {
  const int error = errno;
  ForkAndWait();
  g_handled.fetch_add(1);
  errno = error;
}

time_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

void* SendSignals(void*) {
  Churn<30, 14> churn(3);
  while (!g_stop) {
    const int before = g_handled;
    CHECK(pthread_kill(g_main, SIGUSR1) == 0);
    while (g_handled == before && !g_stop) churn.Steps(5);
  }
  return nullptr;
}

}  // namespace

int main() {
  if (_Fork == nullptr) SkipTest("the C library has no _Fork.");
  EndIfStuck();
  struct sigaction action {};
  action.sa_handler = OnSignal;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  g_main = pthread_self();
  pthread_t senders[kSenders];
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  for (pthread_t& sender : senders) {
    CHECK(pthread_create(&sender, nullptr, SendSignals, nullptr) == 0);
  }
  Churn<1009, 17> churn(5);
  const time_t end = Now() + kSeconds;
  for (int step = 0; step < kSteps && (Now() < end || g_handled == 0); ++step) {
    churn.Steps(1);
    if (step % 7 == 0) ForkAndWait();
  }
  CHECK(g_handled > 0);
  g_stop = true;
  for (pthread_t sender : senders) CHECK(pthread_join(sender, nullptr) == 0);
}
