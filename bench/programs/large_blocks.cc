// Blocks of 5 to 25 MiB, zeroed after allocation. 20 blocks are live, and each step replaces one.
#include <memory>

#include "bench.h"

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t live = args.Get("live", 20);
  size_t steps = args.Get("steps", 2000, 150);
  size_t least = args.Get("least_mib", 5) << 20;
  size_t most = args.Get("most_mib", 25) << 20;
  std::unique_ptr<std::unique_ptr<char[]>[]> blocks(new std::unique_ptr<char[]>[live]);
  bench::Random random(5);
  double start = bench::Now();
  for (size_t i = 0; i < steps; ++i) {
    std::unique_ptr<char[]>& slot = blocks[random.Below(live)];
    slot = nullptr;
    slot = std::make_unique<char[]>(random.Between(least, most));
    bench::Keep(slot.get());
  }
  bench::Report("large_blocks", (bench::Now() - start) * 1e6 / static_cast<double>(steps),
                "us/step");
}
