// fork, exit and malloc_trim while the background thread purges much memory: each waits for one
// step of that work, not for all of it. The test uses no clock: most of the freed memory is still
// resident when fork returns.
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include <vector>

#include "../child.h"
#include "../resident.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBlock = 64 * kMiB;
constexpr size_t kBlocks = 16;
constexpr size_t kTotal = kBlocks * kBlock;

void* Sleep(void*) {
  for (;;) pause();
}

void FreeMuch() {
  std::vector<void*> blocks;
  for (size_t i = 0; i < kBlocks; ++i) blocks.push_back(memset(malloc(kBlock), 1, kBlock));
  for (void* block : blocks) free(block);
}

// Waits until purging has begun. Returns how much is resident then.
size_t AwaitPurge(size_t full) {
  for (int wait = 0; wait < 60000; ++wait) {
    const size_t now = ResidentBytes();
    if (now + 4 * kMiB < full) return now;
    usleep(200);
  }
  CheckFailed(__FILE__, __LINE__, "the background thread purges memory");
}

// Whether at least a quarter is still resident after a fork during the purge.
bool ForksBeforeTheEnd() {
  FreeMuch();
  const size_t full = ResidentBytes();
  CHECK(full > kTotal);
  AwaitPurge(full);
  const pid_t child = fork();
  const size_t left = ResidentBytes();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    free(malloc(kBlock));
    exit(0);
  }
  ExpectCleanChild(child);
  malloc_trim(0);
  CHECK(ResidentBytes() < kTotal / 4);
  return left > full - kTotal * 3 / 4;
}

}  // namespace

int main() {
  if (OnSystemHeap()) SkipTest("this heap has no background thread");
  pthread_t silent;
  // with two threads, the background thread starts
  CHECK(pthread_create(&silent, nullptr, Sleep, nullptr) == 0);
  bool shown = false;
  // The background thread may finish between two checks. The next round then shows it.
  for (int round = 0; round < 8 && !shown; ++round) shown = ForksBeforeTheEnd();
  CHECK(shown);
  _exit(0);
}
