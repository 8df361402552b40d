// vfork and exec, posix_spawn, system and popen from a process whose threads allocate. The children
// run under the same preload and check themselves.
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>

#include "churn.h"

extern char** environ;

namespace {

std::atomic<bool> g_stop{false};

void* AllocateUntilStopped(void* seed) {
  Churn<300, 17> churn(reinterpret_cast<uint64_t>(seed));
  while (!g_stop.load(std::memory_order_relaxed)) churn.Step();
  return nullptr;
}

int BeTheChild() {
  Churn<100, 18> churn(8);
  churn.Steps(2000);
  return 42;
}

void Expect42(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

void ByVfork() {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/proc/self/exe", "spawn", "child", static_cast<char*>(nullptr));
    _exit(99);
  }
  CHECK(child > 0);
  Expect42(child);
}

void ByPosixSpawn() {
  char name[] = "spawn";
  char word[] = "child";
  char* arguments[] = {name, word, nullptr};
  pid_t child = 0;
  CHECK(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0);
  Expect42(child);
}

void ByPopen() {
  FILE* pipe = popen("echo granary", "r");
  CHECK(pipe != nullptr);
  char line[32] = {};
  CHECK(fgets(line, sizeof(line), pipe) != nullptr);
  CHECK(strcmp(line, "granary\n") == 0);
  CHECK(pclose(pipe) == 0);
  CHECK(system("exit 7") >> 8 == 7);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) return BeTheChild();
  pthread_t threads[3];
  for (size_t i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, AllocateUntilStopped, reinterpret_cast<void*>(i)) ==
          0);
  }
  for (int round = 0; round < 40; ++round) {
    ByVfork();
    ByPosixSpawn();
    if (round % 8 == 0) ByPopen();
  }
  g_stop = true;
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}
