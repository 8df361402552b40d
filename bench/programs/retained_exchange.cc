// A stress test of mixed life spans: each thread keeps a retained set and a transient set,
// exchanges objects with other threads through shared slots, and is restarted several times.
#include <atomic>

#include "bench.h"

namespace {

using Shared = bench::Mapped<std::atomic<size_t*>>;

// Arrays of 1 to 64 words, now and then much larger. The content is checked before the free.
size_t* Make(bench::Random& random) {
  size_t words = random.Between(1, 64);
  if (random.Below(100) == 0) words *= 100;
  if (random.Below(2000) == 0) words *= 50;
  words = std::max<size_t>(words, 2);
  auto* block = static_cast<size_t*>(bench::Allocate(words * sizeof(size_t)));
  block[0] = words;
  for (size_t i = 1; i < words; ++i) block[i] = words ^ i;
  return block;
}

void Drop(size_t* block) {
  if (block == nullptr) return;
  size_t words = block[0];
  for (size_t i = 1; i < words; ++i) {
    if (block[i] != (words ^ i)) bench::Fail("a block lost its content");
  }
  std::free(block);
}

void Work(Shared& shared, size_t objects, bench::Random random) {
  bench::Mapped<size_t*> retained(objects / 8);
  bench::Mapped<size_t*> transient(1024);
  size_t kept = 0;
  for (size_t i = 0; i < objects; ++i) {
    if (kept < retained.size() && random.Below(4) == 0) {
      retained[kept++] = Make(random);
    } else {
      size_t*& slot = transient[random.Below(transient.size())];
      Drop(std::exchange(slot, Make(random)));
    }
    if (random.Below(4) == 0) {
      size_t*& mine = transient[random.Below(transient.size())];
      mine = shared[random.Below(shared.size())].exchange(mine);
    }
  }
  for (size_t* block : retained) Drop(block);
  for (size_t* block : transient) Drop(block);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t threads = args.Get("threads", 4);
  size_t generations = args.Get("generations", 15, 3);
  size_t objects = args.Get("objects", 150000, 60000);
  Shared shared(args.Get("shared", 1000));
  double seconds = 0;
  for (size_t generation = 0; generation < generations; ++generation) {
    seconds += bench::RunThreads(threads, [&](size_t index) {
      Work(shared, objects, bench::Random(generation * 100 + index + 31));
    });
  }
  for (auto& slot : shared) Drop(slot.load());
  bench::Report("retained_exchange", seconds, "s");
}
