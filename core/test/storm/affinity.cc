// Threads that move from CPU to CPU while they allocate, and a thread that moves them at other
// moments: migrations interrupt every per-CPU critical section sooner or later.
#include <sched.h>

#include "storm.h"

namespace {

constexpr size_t kThreads = 4;
constexpr size_t kSlots = 300;

const storm::Deadline* g_deadline = nullptr;
std::vector<int> g_cpus;
std::atomic<pid_t> g_ids[kThreads];

void FindCpus() {
  cpu_set_t allowed;
  CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) g_cpus.push_back(cpu);
  }
  if (g_cpus.size() < 2) SkipTest("this machine lets the process use one CPU only.");
}

void MoveTo(pid_t thread, int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  // A CPU that was taken off line meanwhile is refused.
  CHECK(sched_setaffinity(thread, sizeof(only), &only) == 0 || errno == EINVAL);
}

void Conduct(uint64_t random) {
  while (!g_deadline->Passed()) {
    for (auto& id : g_ids) {
      if (id.load() != 0) MoveTo(id.load(), g_cpus[NextRandom(&random) % g_cpus.size()]);
    }
  }
}

void Hop(size_t index, uint64_t random) {
  if (index == kThreads) return Conduct(random);
  g_ids[index] = gettid();
  std::vector<storm::Block> blocks(kSlots);
  while (!g_deadline->Passed()) {
    if (NextRandom(&random) % 2 == 0) MoveTo(0, g_cpus[NextRandom(&random) % g_cpus.size()]);
    for (int i = 0; i < 50; ++i) {
      storm::Block& block = blocks[NextRandom(&random) % kSlots];
      storm::Release(block);
      block = storm::Allocate(&random, 15);
    }
  }
  g_ids[index] = 0;
  for (storm::Block& block : blocks) storm::Release(block);
  while (!g_deadline->Passed()) sched_yield();
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  FindCpus();
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(kThreads + 1, options.seed, Hop);
}
