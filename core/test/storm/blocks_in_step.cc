// Threads that allocate blocks of several trackers while the heap grows: none is refused.
#include <cstdlib>
#include <thread>
#include <vector>

#include "../check.h"

namespace {

void Run() {
  for (size_t round = 0; round < 40; ++round) {
    void* blocks[4];
    for (size_t i = 0; i < 4; ++i) {
      blocks[i] = std::malloc((1 + i) * 1500000);
      CHECK(blocks[i] != nullptr);
    }
    for (void* block : blocks) std::free(block);
  }
}

}  // namespace

int main() {
  for (int process = 0; process < 8; ++process) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(Run);
    for (std::thread& thread : threads) thread.join();
  }
}
