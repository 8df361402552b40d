// A server: every thread replaces random objects of a set that it inherited from an exited thread.
// Most frees are therefore remote frees, and objects survive generations of threads.
#include "bench.h"

namespace {

struct Settings {
  size_t threads, slots, least, most, rounds, generations;
};

void Generation(bench::Mapped<void*>& blocks, size_t first, const Settings& settings,
                bench::Random random) {
  for (size_t i = 0; i < settings.rounds; ++i) {
    void*& slot = blocks[first + random.Below(settings.slots)];
    std::free(slot);
    slot = bench::Allocate(random.Between(settings.least, settings.most));
    *static_cast<size_t*>(slot) = i;
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  Settings settings{
      args.Get("threads", 4), args.Get("slots", 5000),           args.Get("least", 8),
      args.Get("most", 1000), args.Get("rounds", 200000, 50000), args.Get("generations", 80, 10)};
  bench::Mapped<void*> blocks(settings.threads * settings.slots);
  bench::Random random(3);
  for (void*& block : blocks) {
    block = bench::Allocate(random.Between(settings.least, settings.most));
    *static_cast<char*>(block) = 1;
  }
  double seconds = 0;
  for (size_t generation = 0; generation < settings.generations; ++generation) {
    seconds += bench::RunThreads(settings.threads, [&](size_t index) {
      size_t inherited = (index + generation) % settings.threads;
      Generation(blocks, inherited * settings.slots, settings,
                 bench::Random(generation * settings.threads + index + 1));
    });
  }
  for (void* block : blocks) std::free(block);
  auto operations =
      static_cast<double>(2 * settings.threads * settings.rounds * settings.generations);
  bench::Report("larson", operations / seconds * 1e-6, "Mops/s");
}
