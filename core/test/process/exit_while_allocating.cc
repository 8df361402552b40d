// main returns while threads allocate. Destructors and exit handlers run at the same time, and
// nothing that the threads use may be freed.
#include <pthread.h>

#include <atomic>
#include <string>
#include <vector>

#include "../child.h"
#include "churn.h"

namespace {

std::atomic<int> g_running{0};

std::vector<std::string> g_names(200, std::string(100, 'x'));

void* AllocateForEver(void* seed) {
  g_running.fetch_add(1);
  Churn<300, 17> churn(reinterpret_cast<uint64_t>(seed));
  for (;;) churn.Step();
}

void AllocateAtExit() {
  Churn<100, 18> churn(3);
  churn.Steps(2000);
}

int StartThreadsAndLeave(int round) {
  CHECK(atexit(AllocateAtExit) == 0);
  for (size_t i = 0; i < 4; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, AllocateForEver, reinterpret_cast<void*>(i)) == 0);
  }
  while (g_running.load() < 4) sched_yield();
  if (round % 4 == 1) pthread_exit(nullptr);  // the process continues without its first thread
  return round % 4 == 2 ? (quick_exit(0), 0) : 0;
}

// A thread that ends the process after the first thread has ended.
void* EndLater(void*) {
  usleep(20000);
  exit(0);
}

void RunOne(int round) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    char text[16];
    snprintf(text, sizeof(text), "%d", round);
    execl("/proc/self/exe", "exit_while_allocating", text, static_cast<char*>(nullptr));
    _exit(99);
  }
  ExpectCleanChild(child);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const int round = atoi(argv[1]);
    pthread_t thread;
    if (round % 4 == 1) CHECK(pthread_create(&thread, nullptr, EndLater, nullptr) == 0);
    return StartThreadsAndLeave(round);
  }
  for (int round = 0; round < 40; ++round) RunOne(round);
}
