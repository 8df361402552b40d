// The latency of single malloc and free calls, up to the 99.99th percentile, over threads with
// mixed sizes. touch=1 replaces the whole live set several times first, so that the heap is warm.
// Slow calls without a preemption or a page fault of the thread are reported apart.
#include "bench.h"

namespace {

struct Settings {
  size_t threads, live, calls, touch;
};

size_t PickSize(bench::Random& random) {
  size_t roll = random.Below(1000);
  if (roll < 850) return random.Between(16, 512);
  if (roll < 980) return random.Between(513, 4096);
  if (roll < 998) return random.Between(4097, 32768);
  return random.Between(32769, 262144);
}

struct Result {
  bench::Histogram allocate, free;
  uint64_t worst_own = 0;  // slowest malloc without a fault or a preemption since the last slow one
  uint64_t faults = 0;
};

// Reads the thread's preemptions and faults, only after a slow call.
class Disturbances {
 public:
  bool NewSinceLast() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    long now = usage.ru_minflt + usage.ru_majflt + usage.ru_nivcsw;
    return std::exchange(last_, now) != now;
  }

 private:
  long last_ = 0;
};

void Replace(void*& slot, bench::Random& random, size_t touch) {
  std::free(slot);
  size_t size = PickSize(random);
  slot = bench::Allocate(size);
  if (touch != 0) std::memset(slot, 1, size);
  *static_cast<char*>(slot) = 1;
}

void Measure(bench::Mapped<void*>& slots, const Settings& settings, bench::Random& random,
             Result& result) {
  const uint64_t overhead = bench::TickOverhead();
  const uint64_t slow = 10000;
  Disturbances disturbances;
  disturbances.NewSinceLast();
  for (size_t i = 0; i < settings.calls; ++i) {
    void*& slot = slots[random.Below(slots.size())];
    size_t size = PickSize(random);
    void* old = slot;
    uint64_t start = bench::Ticks();
    std::free(old);
    uint64_t freed = bench::Ticks();
    slot = std::malloc(size);
    uint64_t end = bench::Ticks();
    if (slot == nullptr) bench::Fail("malloc returned NULL; run with more memory");
    *static_cast<char*>(slot) = 1;
    result.free.Add(std::max(freed - start, overhead) - overhead);
    uint64_t took = std::max(end - freed, overhead) - overhead;
    result.allocate.Add(took);
    if (took > slow && !disturbances.NewSinceLast()) {
      result.worst_own = std::max(result.worst_own, took);
    }
  }
}

void Work(const Settings& settings, size_t index, Result& result, bench::Barrier& barrier) {
  bench::Random random(index + 91);
  bench::Mapped<void*> slots(settings.live);
  for (size_t i = 0; i < settings.touch * 4 * settings.live; ++i) {
    Replace(slots[random.Below(slots.size())], random, settings.touch);
  }
  barrier.Wait();
  Measure(slots, settings, random, result);
  barrier.Wait();
  for (void* block : slots) std::free(block);
}

void ReportHistogram(const char* prefix, bench::Histogram& histogram, double nanoseconds) {
  const std::pair<const char*, double> quantiles[] = {
      {"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}};
  char name[64];
  for (const auto& [suffix, fraction] : quantiles) {
    std::snprintf(name, sizeof name, "%s_%s", prefix, suffix);
    bench::Report(name, static_cast<double>(histogram.Quantile(fraction)) * nanoseconds, "ns");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  Settings settings{args.Get("threads", 2), args.Get("live", 20000),
                    args.Get("calls", 8000000, 800000), args.Get("touch", 1)};
  double nanoseconds = bench::NanosecondsPerTick();
  bench::Mapped<Result*> results(settings.threads);
  bench::Mapped<char> storage(settings.threads * sizeof(Result));
  for (size_t i = 0; i < settings.threads; ++i) {
    results[i] = new (storage.begin() + i * sizeof(Result)) Result;
  }
  bench::Barrier barrier(settings.threads);
  bench::RunThreads(settings.threads,
                    [&](size_t index) { Work(settings, index, *results[index], barrier); });
  for (size_t i = 1; i < settings.threads; ++i) {
    results[0]->allocate.Merge(results[i]->allocate);
    results[0]->free.Merge(results[i]->free);
    results[0]->worst_own = std::max(results[0]->worst_own, results[i]->worst_own);
  }
  ReportHistogram("malloc", results[0]->allocate, nanoseconds);
  ReportHistogram("free", results[0]->free, nanoseconds);
  bench::Report("malloc_max_own", static_cast<double>(results[0]->worst_own) * nanoseconds, "ns");
}
