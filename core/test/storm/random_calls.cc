// Eight threads make all calls at random, each on its own objects, with every byte checked.
#include "storm.h"

namespace {

constexpr size_t kSlots = 1000;
constexpr unsigned kMaxLog2 = 21;

const storm::Deadline* g_deadline = nullptr;

void CallAtRandom(size_t, uint64_t random) {
  std::vector<storm::Block> blocks(kSlots);
  while (!g_deadline->Passed()) {
    for (int i = 0; i < 500; ++i) {
      storm::Block& block = blocks[NextRandom(&random) % kSlots];
      if (block.address == nullptr) {
        block = storm::Allocate(&random, kMaxLog2);
      } else if (NextRandom(&random) % 4 == 0) {
        storm::Resize(block, &random, kMaxLog2);
      } else {
        storm::Release(block);
      }
    }
  }
  for (storm::Block& block : blocks) storm::Release(block);
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(8, options.seed, CallAtRandom);
}
