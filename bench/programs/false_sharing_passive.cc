// One thread allocates neighbouring objects and passes one to each thread, which frees it and
// allocates its own. An allocator that reuses the freed object immediately spreads one cache line
// over the threads.
#include "bench.h"

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t threads = args.Get("threads", 2);
  size_t rounds = args.Get("rounds", 400, 40);
  size_t objects = args.Get("objects", 500);
  size_t writes = args.Get("writes", 2000);
  size_t size = args.Get("size", 8);
  bench::Mapped<void*> gifts(threads);
  bench::Barrier barrier(threads);
  double seconds = bench::RunThreads(threads, [&](size_t index) {
    for (size_t round = 0; round < rounds; ++round) {
      if (index == 0) {
        for (void*& gift : gifts) *static_cast<char*>(gift = bench::Allocate(size)) = 1;
      }
      barrier.Wait();
      std::free(gifts[index]);
      for (size_t i = 0; i < objects; ++i) {
        auto* object = static_cast<volatile char*>(bench::Allocate(size));
        for (size_t j = 0; j < writes; ++j) *object = static_cast<char>(*object + 1);
        std::free(const_cast<char*>(object));
      }
      barrier.Wait();
    }
  });
  auto total = static_cast<double>(rounds * objects * writes);
  bench::Report("false_sharing_passive", seconds * 1e9 / total, "ns/write");
}
