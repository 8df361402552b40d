// vfork in a program with busy threads. The child allocates and frees before it ends or starts a
// program. It has the parent's memory and thread-local storage, and other threads run meanwhile.
#include <pthread.h>

#include <atomic>

#include "../child.h"
#include "churn.h"

namespace {

constexpr int kThreads = 3;
constexpr int kRounds = 200;

std::atomic<bool> g_stop{false};

void* AllocateUntilStopped(void* seed) {
  Churn<300, 12> churn(reinterpret_cast<uint64_t>(seed));
  while (!g_stop.load(std::memory_order_relaxed)) churn.Steps(100);
  return nullptr;
}

void* g_from_child = nullptr;

// A separate function, so that the child writes to no variable of the function that returns twice.
__attribute__((noinline)) void LiveInTheChild(int round) {
  Churn<100, 12> churn(static_cast<uint64_t>(round));
  churn.Steps(5000);
  g_from_child = malloc(700);
  CHECK(g_from_child != nullptr);
  FillPattern(g_from_child, 700, 7);
}

[[noreturn]] __attribute__((noinline)) void BeTheChild(int round) {
  LiveInTheChild(round);
  if (round % 50 == 0) execl("/proc/self/exe", "vfork_allocates", "end", nullptr);
  _exit(0);
}

__attribute__((noinline)) void ForkOnce(int round) {
  const pid_t child = vfork();
  if (child == 0) BeTheChild(round);
  CHECK(child > 0);
  ExpectCleanChild(child);
  CHECK(PatternHolds(g_from_child, 700, 7));
  free(g_from_child);
}

// A child of vfork may call vfork again.
__attribute__((noinline)) void ForkTwice() {
  const pid_t child = vfork();
  if (child == 0) {
    LiveInTheChild(1);
    free(g_from_child);
    ForkOnce(1);
    BeTheChild(1);
  }
  CHECK(child > 0);
  ExpectCleanChild(child);
  free(g_from_child);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) return 0;
  EndIfStuck();
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, AllocateUntilStopped,
                         reinterpret_cast<void*>(i + 1)) == 0);
  }
  Churn<300, 12> mine(99);
  for (int round = 0; round < kRounds; ++round) {
    mine.Steps(100);
    ForkOnce(round);
    mine.Steps(100);
  }
  ForkTwice();
  g_stop = true;
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  mine.Clear();
}
