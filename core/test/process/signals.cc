// Timers interrupt a loop of allocations about ten thousand times a second. The handler does not
// allocate. Every interruption is somewhere inside malloc or free.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>

#include "churn.h"

namespace {

std::atomic<long> g_interrupts{0};

void Count(int) { g_interrupts.fetch_add(1, std::memory_order_relaxed); }

void Install() {
  struct sigaction action = {};
  action.sa_handler = Count;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  CHECK(sigaction(SIGPROF, &action, nullptr) == 0);
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
}

void StartTimers() {
  struct itimerval every = {{0, 100}, {0, 100}};
  CHECK(setitimer(ITIMER_REAL, &every, nullptr) == 0);
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec spec = {{0, 70000}, {0, 70000}};
  CHECK(timer_settime(timer, 0, &spec, nullptr) == 0);
}

void* Loop(void* seed) {
  Churn<500, 16> churn(reinterpret_cast<uint64_t>(seed));
  while (g_interrupts.load(std::memory_order_relaxed) < 10000) churn.Steps(100);
  return nullptr;
}

}  // namespace

int main() {
  Install();
  StartTimers();
  pthread_t threads[3];
  for (size_t i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, Loop, reinterpret_cast<void*>(i)) == 0);
  }
  Loop(reinterpret_cast<void*>(9));
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  printf("%ld interrupts\n", g_interrupts.load());
}
