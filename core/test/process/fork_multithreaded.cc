// fork while four threads allocate and free: in the child, which has one thread, every lock must be
// free and every structure consistent. The child checks the parent's content, allocates and frees
// much, starts threads and forks again. Argument: the number of forks.
#include <pthread.h>
#include <stdlib.h>

#include <atomic>

#include "../child.h"
#include "churn.h"

namespace {

constexpr int kThreads = 4;
constexpr int kForks = 200;  // without an argument

std::atomic<bool> g_stop{false};

void* AllocateUntilStopped(void* seed) {
  Churn<300, 17> churn(reinterpret_cast<uint64_t>(seed));
  while (!g_stop.load(std::memory_order_relaxed)) churn.Step();
  return nullptr;
}

void* AllocateSome(void* seed) {
  Churn<100, 15> churn(reinterpret_cast<uint64_t>(seed));
  churn.Steps(1000);
  return nullptr;
}

void StartThreadsInTheChild() {
  pthread_t threads[2];
  for (pthread_t& thread : threads) {
    CHECK(pthread_create(&thread, nullptr, AllocateSome, nullptr) == 0);
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

[[noreturn]] void BeTheChild(Churn<300, 17>& inherited, int round) {
  EndIfStuck();
  inherited.Steps(3000);
  Churn<300, 20> own(static_cast<uint64_t>(round));
  own.Steps(3000);
  if (round % 10 == 0) StartThreadsInTheChild();
  if (round % 20 == 0) {
    const pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
      own.Steps(1000);
      _exit(0);
    }
    ExpectCleanChild(grandchild);
  }
  inherited.Clear();
  own.Clear();
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const int forks = argc > 1 ? atoi(argv[1]) : kForks;
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, AllocateUntilStopped,
                         reinterpret_cast<void*>(i + 1)) == 0);
  }
  Churn<300, 17> mine(99);
  for (int round = 0; round < forks; ++round) {
    mine.Steps(100);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) BeTheChild(mine, round);
    mine.Steps(100);
    ExpectCleanChild(child);
  }
  g_stop = true;
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}
