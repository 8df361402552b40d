// A ring of threads joined by bounded queues: each allocates, passes objects on, checks, frees or
// resizes the objects it receives. Some objects travel the whole ring.
#include <memory>

#include "storm.h"

namespace {

constexpr size_t kThreads = 5;
constexpr size_t kRoom = 256;

const storm::Deadline* g_deadline = nullptr;

class Queue {
 public:
  bool Push(const storm::Block& block) {
    pthread_mutex_lock(&mutex_);
    const bool fits = blocks_.size() < kRoom;
    if (fits) blocks_.push_back(block);
    pthread_mutex_unlock(&mutex_);
    return fits;
  }

  bool Pop(storm::Block& block) {
    pthread_mutex_lock(&mutex_);
    const bool found = !blocks_.empty();
    if (found) {
      block = blocks_.back();
      blocks_.pop_back();
    }
    pthread_mutex_unlock(&mutex_);
    return found;
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::vector<storm::Block> blocks_;
};

Queue g_queues[kThreads];

void PassOn(size_t index, storm::Block block) {
  if (!g_queues[(index + 1) % kThreads].Push(block)) storm::Release(block);
}

void Turn(size_t index, uint64_t random) {
  while (!g_deadline->Passed()) {
    for (int i = 0; i < 200; ++i) {
      PassOn(index, storm::Allocate(&random, 18));
      storm::Block block;
      if (!g_queues[index].Pop(block)) continue;
      const uint64_t choice = NextRandom(&random) % 4;
      if (choice == 0) storm::Resize(block, &random, 18);
      if (choice <= 1) {
        PassOn(index, block);
      } else {
        storm::Release(block);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const storm::Options options = storm::ParseOptions(argc, argv);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(kThreads, options.seed, Turn);
  for (Queue& queue : g_queues) {
    storm::Block block;
    while (queue.Pop(block)) storm::Release(block);
  }
}
