// Three threads fork while three others allocate. Every child checks and frees the objects it
// inherited, allocates, and starts a thread.

#include "../child.h"
#include "storm.h"

namespace {

constexpr size_t kSlots = 300;
constexpr unsigned kMaxLog2 = 18;

const storm::Deadline* g_deadline = nullptr;

void Churn(std::vector<storm::Block>& blocks, uint64_t* random, int count) {
  for (int i = 0; i < count; ++i) {
    storm::Block& block = blocks[NextRandom(random) % blocks.size()];
    storm::Release(block);
    block = storm::Allocate(random, kMaxLog2);
  }
}

void ReleaseAll(std::vector<storm::Block>& blocks) {
  for (storm::Block& block : blocks) storm::Release(block);
}

void LiveInTheChild(size_t, uint64_t random) {
  std::vector<storm::Block> blocks(50);
  Churn(blocks, &random, 300);
  ReleaseAll(blocks);
}

void ForkOnce(std::vector<storm::Block>& blocks, uint64_t random) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    Churn(blocks, &random, 1000);
    storm::RunThreads(2, random, LiveInTheChild);
    ReleaseAll(blocks);
    _exit(0);
  }
  ExpectCleanChild(child);
}

void AllocateOrFork(size_t index, uint64_t random) {
  std::vector<storm::Block> blocks(kSlots);
  while (!g_deadline->Passed()) {
    Churn(blocks, &random, 200);
    if (index % 2 == 0) ForkOnce(blocks, random);
  }
  ReleaseAll(blocks);
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(6, options.seed, AllocateOrFork);
}
