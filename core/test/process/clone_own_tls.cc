// A raw clone with a zeroed thread-local block of its own that the C library does not know: the
// kernel has no restartable sequence registered for it, and every thread-local variable of the heap
// reads as zero.
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>

#include "churn.h"

namespace {

constexpr size_t kStack = 256 << 10;
constexpr size_t kTlsSide = 64 << 10;
constexpr int kRounds = 30;

struct Job {
  void* (*allocate)(size_t);
  void (*release)(void*);
  void* inbox;
  void* outbox;
  int failures;
};

std::atomic<int> g_alive{0};  // the kernel clears and wakes it when the clone has ended

// Runs without the C library's thread structure: it uses no errno and no stdio, only function
// pointers.
int BeTheThread(void* argument) {
  auto* job = static_cast<Job*>(argument);
  uint64_t random = 11;
  void* blocks[64] = {};
  size_t sizes[64] = {};
  if (!PatternHolds(job->inbox, 5000, 6)) ++job->failures;
  job->release(job->inbox);
  for (int i = 0; i < 20000; ++i) {
    const size_t at = NextRandom(&random) % 64;
    if (blocks[at] != nullptr && !PatternHolds(blocks[at], sizes[at], at)) ++job->failures;
    job->release(blocks[at]);
    sizes[at] = RandomSize(&random, 16);
    blocks[at] = job->allocate(sizes[at]);
    if (blocks[at] == nullptr) ++job->failures;
    FillPattern(blocks[at], sizes[at], at);
  }
  for (void* block : blocks) job->release(block);
  job->outbox = job->allocate(7000);
  FillPattern(job->outbox, 7000, 7);
  syscall(SYS_exit, 0);
  return 0;
}

char* Map(size_t size) {
  void* area = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  return static_cast<char*>(area);
}

// On x86-64 the word at the thread pointer holds its own address, and so does the word at offset
// 16.
char* MakeThreadPointer(char* area) {
  char* pointer = area + kTlsSide;
#if defined(__x86_64__)
  memcpy(pointer, &pointer, sizeof(pointer));
  memcpy(pointer + 16, &pointer, sizeof(pointer));
#endif
  return pointer;
}

void WaitUntilEnded(bool allocate_meanwhile) {
  Churn<100, 16> churn(5);
  for (;;) {
    const int alive = g_alive.load();
    if (alive == 0) return;
    if (allocate_meanwhile) {
      churn.Steps(100);
    } else {
      syscall(SYS_futex, &g_alive, FUTEX_WAIT, alive, nullptr, nullptr, 0);
    }
  }
}

void RunOne(char* stack, bool allocate_meanwhile) {
  char* tls = Map(2 * kTlsSide);
  Job job = {malloc, free, malloc(5000), nullptr, 0};
  CHECK(job.inbox != nullptr);
  FillPattern(job.inbox, 5000, 6);
  g_alive = 1;
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                         CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
  CHECK(clone(BeTheThread, stack + kStack, kFlags, &job, nullptr, MakeThreadPointer(tls),
              &g_alive) > 0);
  WaitUntilEnded(allocate_meanwhile);
  CHECK(job.failures == 0);
  CHECK(PatternHolds(job.outbox, 7000, 7));
  free(job.outbox);
  CHECK(munmap(tls, 2 * kTlsSide) == 0);
}

}  // namespace

int main() {
  if (OnSystemHeap()) SkipTest("the C library's own heap reads thread-locals that are not there.");
  char* stack = Map(kStack);
  for (int round = 0; round < kRounds; ++round) RunOne(stack, false);
  for (int round = 0; round < kRounds; ++round) RunOne(stack, true);
}
