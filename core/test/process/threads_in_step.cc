// Threads that begin and end in step: half of them allocate before they wait for the others, half
// after, so that some end while others use the heap for the first time. And a great many threads
// one after another, each of which leaves one object to the main thread.
#include <malloc.h>
#include <pthread.h>

#include "../check.h"

namespace {

constexpr int kInner = 4;
#ifdef GRANARY_EMULATED
constexpr int kRounds = 100, kManyThreads = 2000;
#else
constexpr int kRounds = 1000, kManyThreads = 20000;
#endif

struct Task {
  pthread_barrier_t* barrier;
  bool allocates_first;
};

void* AllocateAround(void* argument) {
  const auto* task = static_cast<Task*>(argument);
  void* block = task->allocates_first ? Hide(malloc(32)) : nullptr;
  pthread_barrier_wait(task->barrier);
  if (!task->allocates_first) block = Hide(malloc(32));
  CHECK(block != nullptr);
  free(block);
  return nullptr;
}

void OneRound() {
  pthread_barrier_t barrier;
  CHECK(pthread_barrier_init(&barrier, nullptr, kInner + 1) == 0);
  Task tasks[kInner];
  pthread_t threads[kInner];
  for (int i = 0; i < kInner; ++i) {
    tasks[i] = {&barrier, i % 2 == 0};
    CHECK(pthread_create(&threads[i], nullptr, AllocateAround, &tasks[i]) == 0);
  }
  pthread_barrier_wait(&barrier);
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  pthread_barrier_destroy(&barrier);
}

void* Rounds(void*) {
  for (int round = 0; round < kRounds; ++round) OneRound();
  return nullptr;
}

void ThreadsEndWhileOthersBegin() {
  pthread_t outer[2];
  for (pthread_t& thread : outer) CHECK(pthread_create(&thread, nullptr, Rounds, nullptr) == 0);
  for (pthread_t thread : outer) CHECK(pthread_join(thread, nullptr) == 0);
}

void* LeaveOne(void*) {
  free(Hide(malloc(32)));
  return malloc(32);
}

void RunMany(int count) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    void* left = nullptr;
    CHECK(pthread_create(&thread, nullptr, LeaveOne, nullptr) == 0);
    CHECK(pthread_join(thread, &left) == 0);
    CHECK(left != nullptr);
    free(left);
  }
}

// An object of 32 bytes left behind in each thread would make the difference many times as large.
void ManyThreadsLeakNothing() {
  RunMany(16);
  const size_t before = mallinfo2().uordblks;
  RunMany(kManyThreads);
  CHECK(mallinfo2().uordblks <= before + kManyThreads);
}

}  // namespace

int main() {
  ThreadsEndWhileOthersBegin();
  ManyThreadsLeakNothing();
}
