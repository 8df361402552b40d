// Threads allocate batches and put them into a table where any thread may take and free them, so
// that most objects are freed in bulk by a thread that did not allocate them.
#include <atomic>

#include "bench.h"

namespace {

struct Batch {
  size_t count;
  void* blocks[500];
};

// A slot holds one batch or none. An atomic exchange is the whole protocol.
using Table = bench::Mapped<std::atomic<Batch*>>;

Batch* Fill(bench::Random& random, size_t most) {
  auto* batch = static_cast<Batch*>(bench::Allocate(sizeof(Batch)));
  batch->count = random.Between(50, 500);
  for (size_t i = 0; i < batch->count; ++i) {
    size_t size = random.Below(8) == 0 ? random.Between(100, most) : random.Between(8, 100);
    batch->blocks[i] = bench::Allocate(size);
    *static_cast<char*>(batch->blocks[i]) = 1;
  }
  return batch;
}

void Drain(Batch* batch, bool backwards) {
  if (batch == nullptr) return;
  for (size_t i = 0; i < batch->count; ++i) {
    std::free(batch->blocks[backwards ? batch->count - 1 - i : i]);
  }
  std::free(batch);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t threads = args.Get("threads", 8);
  size_t batches = args.Get("batches", 20000, 2000);
  size_t most = args.Get("most", 2000);
  Table table(args.Get("slots", 16));
  std::atomic<size_t> objects{0};
  double seconds = bench::RunThreads(threads, [&](size_t index) {
    bench::Random random(index + 21);
    size_t made = 0;
    for (size_t i = 0; i < batches; ++i) {
      Batch* batch = Fill(random, most);
      made += batch->count;
      Drain(table[random.Below(table.size())].exchange(batch), i % 2 == 0);
    }
    objects += made;
  });
  for (auto& slot : table) Drain(slot.load(), false);
  bench::Report("batch_exchange", static_cast<double>(2 * objects.load()) / seconds * 1e-6,
                "Mops/s");
}
