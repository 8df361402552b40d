// Short-lived threads: each allocates a hundred objects, frees half and leaves half to a later
// thread.
#include "bench.h"

namespace {

constexpr size_t kObjects = 100;

struct Legacy {
  void* blocks[kObjects / 2];
};

void Live(Legacy& legacy, size_t seed) {
  bench::Random random(seed + 61);
  for (void* block : legacy.blocks) std::free(block);
  void* own[kObjects];
  for (void*& block : own) {
    block = bench::Allocate(random.Between(16, 1024));
    *static_cast<char*>(block) = 1;
  }
  for (size_t i = 0; i < kObjects; ++i) {
    if (i % 2 == 0)
      legacy.blocks[i / 2] = own[i];
    else
      std::free(own[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t at_once = args.Get("at_once", 8);
  size_t waves = args.Get("waves", 8000, 1000);
  bench::Mapped<Legacy> legacies(at_once);
  double seconds = 0;
  for (size_t wave = 0; wave < waves; ++wave) {
    seconds += bench::RunThreads(at_once, [&](size_t index) {
      Live(legacies[(index + wave) % at_once], wave * at_once + index);
    });
  }
  for (Legacy& legacy : legacies) {
    for (void* block : legacy.blocks) std::free(block);
  }
  bench::Report("thread_churn", seconds * 1e6 / static_cast<double>(waves * at_once), "us/thread");
  bench::Report("rss_after", bench::OwnMiB(), "MiB");
}
