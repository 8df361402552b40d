// Growth by realloc: one block to 64 MiB in large and in small steps, sparsely and fully written;
// and several vectors that grow in turn, each blocking the other's growth.
#include <vector>

#include "bench.h"

namespace {

struct Growth {
  size_t limit, step;
  bool fill;  // write every new byte, or only the first of each step
};

double GrowMilliseconds(const Growth& growth) {
  double start = bench::Now();
  char* block = nullptr;
  for (size_t size = 0; size < growth.limit; size += growth.step) {
    block = static_cast<char*>(std::realloc(block, size + growth.step));
    if (block == nullptr) bench::Fail("realloc returned NULL; run with more memory");
    if (growth.fill)
      std::memset(block + size, 1, growth.step);
    else
      block[size] = 1;
  }
  double time = (bench::Now() - start) * 1e3;
  if (block[growth.limit / 2 / growth.step * growth.step] != 1) bench::Fail("realloc lost bytes");
  std::free(block);
  return time;
}

double VectorsMilliseconds(size_t count, size_t items) {
  double start = bench::Now();
  {
    std::vector<std::vector<uint64_t>> vectors(count);
    for (size_t i = 0; i < items; ++i) {
      for (auto& vector : vectors) vector.push_back(i);
    }
    bench::Keep(vectors.data());
  }
  return (bench::Now() - start) * 1e3;
}

// The median of `rounds` runs, or of the runs that begin within a second.
template <class Run>
void ReportMedian(const char* name, size_t rounds, Run run) {
  bench::Mapped<double> times(rounds);
  size_t count = 0;
  for (double end = bench::Now() + 1; count < rounds && (count == 0 || bench::Now() < end);) {
    times[count++] = run();
  }
  std::sort(times.begin(), times.begin() + count);
  bench::Report(name, times[count / 2], "ms");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t limit = args.Get("limit_mib", 64) << 20;
  size_t small_limit = args.Get("small_limit_mib", 16) << 20;
  size_t rounds = args.Get("rounds", 15, 3);
  size_t items = args.Get("items", 400000, 100000);
  const std::pair<const char*, Growth> growths[] = {
      {"realloc_64k", {limit, 64 << 10, false}},
      {"realloc_4k", {small_limit, 4 << 10, false}},
      {"realloc_64k_filled", {limit, 64 << 10, true}},
  };
  for (const auto& [name, growth] : growths) {
    ReportMedian(name, rounds, [&] { return GrowMilliseconds(growth); });
  }
  ReportMedian("vectors_in_turn", rounds, [&] { return VectorsMilliseconds(16, items); });
}
