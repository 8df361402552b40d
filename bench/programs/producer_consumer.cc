// One thread allocates, the other frees. Objects cross a bounded ring in batches.
#include <atomic>

#include "bench.h"

namespace {

constexpr size_t kBatch = 64;

struct Ring {
  static constexpr size_t kSlots = 64;
  void* batches[kSlots][kBatch];
  alignas(64) std::atomic<size_t> written{0};
  alignas(64) std::atomic<size_t> read{0};
};

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Spins briefly, then yields, so that a machine with one core too few is slow but not stuck.
template <class Ready>
void WaitFor(Ready ready) {
  for (size_t spins = 0; !ready(); ++spins) {
    if (spins < 2000)
      Pause();
    else
      sched_yield();
  }
}

void Produce(Ring& ring, size_t batches, size_t size) {
  for (size_t i = 0; i < batches; ++i) {
    WaitFor([&] { return i - ring.read.load(std::memory_order_acquire) < Ring::kSlots; });
    for (void*& slot : ring.batches[i % Ring::kSlots]) {
      slot = bench::Allocate(size);
      *static_cast<size_t*>(slot) = i;
    }
    ring.written.store(i + 1, std::memory_order_release);
  }
}

void Consume(Ring& ring, size_t batches) {
  for (size_t i = 0; i < batches; ++i) {
    WaitFor([&] { return ring.written.load(std::memory_order_acquire) > i; });
    for (void* block : ring.batches[i % Ring::kSlots]) {
      if (*static_cast<size_t*>(block) != i) bench::Fail("an object changed on its way");
      std::free(block);
    }
    ring.read.store(i + 1, std::memory_order_release);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t batches = args.Get("batches", 1500000, 150000);
  size_t size = args.Get("size", 64);
  bench::Mapped<Ring> rings(1);
  double seconds = bench::RunThreads(2, [&](size_t index) {
    if (index == 0)
      Produce(rings[0], batches, size);
    else
      Consume(rings[0], batches);
  });
  bench::Report("producer_consumer", static_cast<double>(batches * kBatch) / seconds * 1e-6,
                "Mobjects/s");
}
