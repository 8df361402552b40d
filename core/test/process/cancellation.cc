// Threads that are cancelled while they print statistics, allocate or purge: malloc_stats and
// malloc_info write to streams, where a cancelled thread ends. No lock may stay behind.
#include <malloc.h>
#include <pthread.h>

#include <atomic>

#include "../child.h"

namespace {

constexpr int kRounds = 200;

std::atomic<int> g_laps;

void CloseStream(void* stream) { fclose(static_cast<FILE*>(stream)); }

void* PrintForEver(void*) {
  FILE* const sink = fopen("/dev/null", "w");
  CHECK(sink != nullptr);
  setvbuf(sink, nullptr, _IONBF, 0);
  pthread_cleanup_push(CloseStream, sink);
  while (true) {
    malloc_stats();
    malloc_info(0, sink);
    free(Hide(malloc(300000)));
    malloc_trim(0);
    g_laps.fetch_add(1);
  }
  pthread_cleanup_pop(1);
  return nullptr;
}

// Usually the thread is somewhere in the loop then; in the first round it has not begun.
void CancelOne(int laps) {
  pthread_t thread;
  void* result = nullptr;
  const int before = g_laps;
  CHECK(pthread_create(&thread, nullptr, PrintForEver, nullptr) == 0);
  while (g_laps < before + laps) sched_yield();
  CHECK(pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
}

void TheHeapStillWorks() {
  malloc_stats();
  CHECK(mallinfo2().uordblks > 0);
  free(Hide(malloc(HideSize(5 << 20))));
  malloc_trim(0);
}

}  // namespace

int main() {
  EndIfStuck();
  CHECK(freopen("/dev/null", "w", stderr) != nullptr);
  for (int round = 0; round < kRounds; ++round) {
    CancelOne(round % 3);
    TheHeapStillWorks();
  }
}
