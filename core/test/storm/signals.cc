// Every thread receives signals from the others while it allocates. The handler runs on its own
// stack and returns into the interrupted instruction of the heap.
#include <signal.h>

#include "storm.h"

namespace {

constexpr size_t kThreads = 4;
constexpr size_t kSlots = 300;

const storm::Deadline* g_deadline = nullptr;
std::atomic<long> g_hits{0};
pthread_t g_threads[kThreads];
pthread_barrier_t g_all_started;
pthread_barrier_t g_all_ended;

void Hit(int) {
  volatile unsigned char scratch[512];
  for (size_t i = 0; i < sizeof(scratch); ++i) scratch[i] = static_cast<unsigned char>(i);
  g_hits.fetch_add(1, std::memory_order_relaxed);
}

void ShootAndAllocate(size_t index, uint64_t random) {
  g_threads[index] = pthread_self();
  pthread_barrier_wait(&g_all_started);
  std::vector<storm::Block> blocks(kSlots);
  while (!g_deadline->Passed()) {
    CHECK(pthread_kill(g_threads[NextRandom(&random) % kThreads], SIGUSR2) == 0);
    for (int i = 0; i < 20; ++i) {
      storm::Block& block = blocks[NextRandom(&random) % kSlots];
      storm::Release(block);
      block = storm::Allocate(&random, 15);
    }
  }
  for (storm::Block& block : blocks) storm::Release(block);
  pthread_barrier_wait(&g_all_ended);
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  struct sigaction action = {};
  action.sa_handler = Hit;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR2, &action, nullptr) == 0);
  CHECK(pthread_barrier_init(&g_all_started, nullptr, kThreads) == 0);
  CHECK(pthread_barrier_init(&g_all_ended, nullptr, kThreads) == 0);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(kThreads, options.seed, ShootAndAllocate);
  printf("%ld signals\n", g_hits.load());
}
