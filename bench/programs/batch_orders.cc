// Batches of mostly small objects. Each batch is freed in another order than it was allocated:
// newest first, oldest first, every other one, from both ends. Half of every batch outlives the
// next batch.
#include "bench.h"

namespace {

// Small sizes are frequent and large sizes rare: a power law from 1 byte up.
size_t PickSize(bench::Random& random, size_t most) {
  size_t range = most >> random.Below(7);
  return 1 + random.Below(std::max<size_t>(range, 16));
}

void FreeRange(void** blocks, size_t count, size_t order) {
  switch (order % 4) {
    case 0:
      for (size_t i = count; i-- > 0;) std::free(blocks[i]);
      break;
    case 1:
      for (size_t i = 0; i < count; ++i) std::free(blocks[i]);
      break;
    case 2:
      for (size_t i = 0; i < count; i += 2) std::free(blocks[i]);
      for (size_t i = 1; i < count; i += 2) std::free(blocks[i]);
      break;
    default:
      for (size_t i = 0; i < count; ++i) std::free(blocks[i % 2 == 0 ? i / 2 : count - 1 - i / 2]);
  }
}

void Work(size_t index, size_t batches, size_t count, size_t most) {
  bench::Random random(index + 11);
  bench::Mapped<void*> blocks(count);
  size_t half = count / 2;
  for (size_t batch = 0; batch < batches; ++batch) {
    void** now = blocks.begin() + (batch % 2) * half;
    if (batch >= 2) FreeRange(now, half, batch / 2 + index);
    for (size_t i = 0; i < half; ++i) {
      now[i] = bench::Allocate(PickSize(random, most));
      *static_cast<char*>(now[i]) = 1;
    }
  }
  for (void* block : blocks) std::free(block);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t threads = args.Get("threads", 2);
  size_t batches = args.Get("batches", 8000, 800);
  size_t count = args.Get("objects", 10000);
  size_t most = args.Get("most", 1000);
  double seconds =
      bench::RunThreads(threads, [&](size_t index) { Work(index, batches, count, most); });
  auto operations = static_cast<double>(threads * batches * count);
  bench::Report("batch_orders", operations / seconds * 1e-6, "Mops/s");
}
