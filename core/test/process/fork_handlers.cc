// pthread_atfork handlers that allocate and free, registered by the program before and after its
// first allocation: they run inside fork, next to the heap's own.
#include <pthread.h>

#include "../child.h"
#include "churn.h"

namespace {

void* g_kept = nullptr;
int g_prepared = 0;

void Swap() {
  free(g_kept);
  g_kept = malloc(3000);
  CHECK(g_kept != nullptr);
  FillPattern(g_kept, 3000, 1);
  void* large = malloc(1 << 20);
  CHECK(large != nullptr);
  free(large);
}

void Prepare() {
  ++g_prepared;
  Swap();
}

__attribute__((constructor(101))) void RegisterEarly() {
  CHECK(pthread_atfork(Prepare, Swap, Swap) == 0);
}

void* Allocate(void*) {
  Churn<100, 16> churn(3);
  churn.Steps(200000);
  return nullptr;
}

}  // namespace

int main() {
  CHECK(pthread_atfork(Prepare, Swap, Swap) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, Allocate, nullptr) == 0);
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      EndIfStuck();
      Churn<50, 16> churn(4);
      churn.Steps(200);
      CHECK(PatternHolds(g_kept, 3000, 1));
      churn.Clear();
      _exit(0);
    }
    ExpectCleanChild(child);
  }
  CHECK(g_prepared == 200);
  CHECK(pthread_join(thread, nullptr) == 0);
  free(g_kept);
}
