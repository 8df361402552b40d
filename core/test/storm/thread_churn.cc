// Threads with a short life: each frees what its predecessor left, leaves objects of its own and
// ends. Hundreds follow one another on each of four lines.
#include "storm.h"

namespace {

constexpr size_t kLeft = 40;

const storm::Deadline* g_deadline = nullptr;

struct Line {
  std::vector<storm::Block> left{kLeft};
  uint64_t random = 0;
};

void* LiveBriefly(void* argument) {
  auto* line = static_cast<Line*>(argument);
  for (storm::Block& block : line->left) {
    storm::Release(block);
    block = storm::Allocate(&line->random, 17);
    if (NextRandom(&line->random) % 3 == 0) storm::Resize(block, &line->random, 17);
  }
  return nullptr;
}

void Follow(size_t, uint64_t random) {
  Line line;
  line.random = random;
  while (!g_deadline->Passed()) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, LiveBriefly, &line) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
  }
  for (storm::Block& block : line.left) storm::Release(block);
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(4, options.seed, Follow);
}
