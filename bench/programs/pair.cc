// malloc and free of one size in a loop: the time of the fast path, by size.
#include "bench.h"

namespace {

double PairNanoseconds(size_t size, size_t pairs) {
  double start = bench::Now();
  for (size_t i = 0; i < pairs; ++i) {
    auto* block = static_cast<volatile char*>(std::malloc(size));
    *block = 1;
    std::free(const_cast<char*>(block));
  }
  return (bench::Now() - start) * 1e9 / static_cast<double>(pairs);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t samples = args.Get("samples", 41, 11);
  size_t small = args.Get("small", 400000, 100000);
  size_t large = args.Get("large", 20000, 5000);
  bench::Mapped<double> times(samples);
  for (size_t size : {16, 64, 256, 1024, 8192, 32768, 65536, 262144, 1048576}) {
    size_t pairs = size <= 8192 ? small : large;
    PairNanoseconds(size, pairs / 4);
    for (double& time : times) time = PairNanoseconds(size, pairs);
    std::sort(times.begin(), times.end());
    bench::Report("pair_", size, "", times[samples / 2], "ns");
    bench::Report("pair_", size, "_best", times[0], "ns");
  }
}
