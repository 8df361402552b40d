// A heap that only grows: one thread fills it with small objects and writes each. Measures the
// total time, and the time of the slowest malloc with its write.
#include "bench.h"

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t target = args.Get("mib", 1024, 128) << 20;
  size_t size = args.Get("size", 256);
  double nanoseconds = bench::NanosecondsPerTick();
  uint64_t overhead = bench::TickOverhead();
  bench::Histogram histogram;
  size_t count = target / size;
  double start = bench::Now();
  for (size_t i = 0; i < count; ++i) {
    uint64_t before = bench::Ticks();
    void* block = std::malloc(size);
    if (block == nullptr) bench::Fail("malloc returned NULL; run with more memory");
    std::memset(block, 1, size);
    uint64_t took = bench::Ticks() - before;
    bench::Keep(block);
    histogram.Add(std::max(took, overhead) - overhead);
  }
  bench::Report("growth", bench::Now() - start, "s");
  bench::Report("rss_per_live", static_cast<double>(bench::OwnRss()) / static_cast<double>(target),
                "RSS/live");
  const std::pair<const char*, double> quantiles[] = {
      {"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};
  for (const auto& [name, fraction] : quantiles) {
    bench::Report(name, static_cast<double>(histogram.Quantile(fraction)) * nanoseconds, "ns");
  }
}
