// Six threads exchange objects through slots that all share, so that another thread checks and
// frees most of them.
#include <memory>

#include "storm.h"

namespace {

constexpr size_t kSlots = 4096;
constexpr unsigned kMaxLog2 = 19;

const storm::Deadline* g_deadline = nullptr;
std::atomic<storm::Block*> g_slots[kSlots];

storm::Block* NewBlock(uint64_t* random) {
  return new storm::Block(storm::Allocate(random, kMaxLog2));
}

void Discard(storm::Block* block) {
  if (block == nullptr) return;
  storm::Release(*block);
  delete block;
}

void Exchange(size_t, uint64_t random) {
  while (!g_deadline->Passed()) {
    for (int i = 0; i < 500; ++i) {
      auto& slot = g_slots[NextRandom(&random) % kSlots];
      storm::Block* taken = slot.exchange(NewBlock(&random), std::memory_order_acq_rel);
      if (taken != nullptr && NextRandom(&random) % 8 == 0) {
        storm::Resize(*taken, &random, kMaxLog2);
      }
      Discard(taken);
    }
  }
}

// Traffic in one direction: even threads only allocate, odd threads only free.
void ProduceOrConsume(size_t index, uint64_t random) {
  while (!g_deadline->Passed()) {
    for (int i = 0; i < 500; ++i) {
      auto& slot = g_slots[NextRandom(&random) % kSlots];
      if (index % 2 == 1) {
        Discard(slot.exchange(nullptr, std::memory_order_acq_rel));
        continue;
      }
      if (slot.load(std::memory_order_relaxed) != nullptr) continue;
      Discard(slot.exchange(NewBlock(&random), std::memory_order_acq_rel));
    }
  }
}

void RunPhase(int seconds, uint64_t seed, storm::Body body) {
  const storm::Deadline deadline(seconds);
  g_deadline = &deadline;
  storm::RunThreads(6, seed, body);
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  const int half = options.seconds / 2 + options.seconds % 2;
  RunPhase(half, options.seed, Exchange);
  RunPhase(half, options.seed + 1, ProduceOrConsume);
  for (auto& slot : g_slots) Discard(slot.exchange(nullptr));
}
