// Each thread allocates a small object, writes it many times and frees it. If an allocator places
// two threads' objects in one cache line, the threads slow each other.
#include "bench.h"

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t threads = args.Get("threads", 2);
  size_t objects = args.Get("objects", 200000, 20000);
  size_t writes = args.Get("writes", 2000);
  size_t size = args.Get("size", 8);
  bench::Barrier barrier(threads);
  double seconds = bench::RunThreads(threads, [&](size_t) {
    barrier.Wait();
    for (size_t i = 0; i < objects; ++i) {
      auto* object = static_cast<volatile char*>(bench::Allocate(size));
      for (size_t j = 0; j < writes; ++j) *object = static_cast<char>(*object + 1);
      std::free(const_cast<char*>(object));
    }
  });
  bench::Report("false_sharing_active", seconds * 1e9 / static_cast<double>(objects * writes),
                "ns/write");
}
