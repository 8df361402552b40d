// fork together with stdio, the pattern of glibc's malloc/tst-malloc-fork-deadlock: threads that
// fork, threads that grow a line inside getline, and a thread that flushes every stream. fflush
// holds the list of streams and waits for a stream; the reader of that stream waits for the heap;
// fork must not hold the heap and wait for the list.
#include <pthread.h>

#include <atomic>

#include "../child.h"

namespace {

constexpr int kForkers = 4, kReaders = 8;
constexpr int kForks = 100;

std::atomic<bool> g_stop{false};

void* ForkOften(void*) {
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      EndIfStuck();
      char* text = nullptr;
      CHECK(asprintf(&text, "%d", i) > 0);
      fflush(nullptr);
      free(text);
      _exit(0);
    }
    ExpectCleanChild(child);
  }
  return nullptr;
}

void* ReadLines(void*) {
  while (!g_stop.load(std::memory_order_relaxed)) {
    FILE* const file = fopen("/proc/self/maps", "r");
    CHECK(file != nullptr);
    char* line = nullptr;
    size_t size = 0;
    while (getline(&line, &size, file) > 0) {
      free(line);
      line = nullptr;
      size = 0;
    }
    free(line);
    fclose(file);
  }
  return nullptr;
}

void* FlushAll(void*) {
  while (!g_stop.load(std::memory_order_relaxed)) fflush(nullptr);
  return nullptr;
}

}  // namespace

int main() {
  EndIfStuck();
  pthread_t forkers[kForkers], others[kReaders + 1];
  for (int i = 0; i < kReaders; ++i) {
    CHECK(pthread_create(&others[i], nullptr, ReadLines, nullptr) == 0);
  }
  CHECK(pthread_create(&others[kReaders], nullptr, FlushAll, nullptr) == 0);
  for (pthread_t& thread : forkers) {
    CHECK(pthread_create(&thread, nullptr, ForkOften, nullptr) == 0);
  }
  for (pthread_t thread : forkers) CHECK(pthread_join(thread, nullptr) == 0);
  g_stop = true;
  for (pthread_t thread : others) CHECK(pthread_join(thread, nullptr) == 0);
}
