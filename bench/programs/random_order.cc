// Many objects of random size, all allocated, then freed in random order, twice. The first pass
// runs on a fresh heap, the second on the heap that the first left. One operation is one malloc or
// one free.
#include "bench.h"

namespace {

struct PassTime {
  double allocate;
  double free;
};

PassTime Pass(bench::Mapped<void*>& blocks, bench::Mapped<uint16_t>& sizes, bench::Random& random) {
  double start = bench::Now();
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = bench::Allocate(sizes[i]);
    *static_cast<size_t*>(blocks[i]) = i;
  }
  PassTime time{bench::Now() - start, 0};
  bench::Shuffle(blocks.begin(), blocks.end(), random);
  start = bench::Now();
  for (void* block : blocks) std::free(block);
  time.free = bench::Now() - start;
  return time;
}

void ReportPass(const char* which, PassTime time, size_t count) {
  char name[64];
  double scale = 1e9 / static_cast<double>(count);
  std::snprintf(name, sizeof name, "%s_pass", which);
  bench::Report(name, (time.allocate + time.free) * scale / 2, "ns/op");
  std::snprintf(name, sizeof name, "%s_malloc", which);
  bench::Report(name, time.allocate * scale, "ns/op");
  std::snprintf(name, sizeof name, "%s_free", which);
  bench::Report(name, time.free * scale, "ns/op");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t count = args.Get("objects", 1000000, 200000);
  size_t largest = args.Get("largest", 1024);
  bench::Random random(args.Get("seed", 1));
  bench::Mapped<void*> blocks(count);
  bench::Mapped<uint16_t> sizes(count);
  for (uint16_t& size : sizes) size = static_cast<uint16_t>(random.Between(16, largest));
  ReportPass("first", Pass(blocks, sizes, random), count);
  ReportPass("second", Pass(blocks, sizes, random), count);
}
