// Many threads with a small live set each: every thread fills its slots, waits for all others, then
// replaces random objects until the work is done or the time is up. Measures the rate, RSS while
// they run, and RSS after they have ended.
#include <atomic>

#include "bench.h"

namespace {

struct Settings {
  size_t threads, live, least, most, steps;
  double limit;  // seconds
};

struct Shared {
  explicit Shared(const Settings& settings)
      : slots(settings.threads * settings.live),
        sizes(settings.threads * settings.live),
        filled(settings.threads + 1),
        go(settings.threads + 1),
        done(settings.threads + 1),
        leave(settings.threads + 1) {}
  bench::Mapped<char*> slots;
  double end = 0;  // when to stop; set before `go`
  std::atomic<size_t> steps{0};
  bench::Mapped<uint16_t> sizes;  // requested sizes, so that live bytes are known exactly
  bench::Barrier filled, go, done, leave;
};

void Replace(Shared& shared, size_t slot, size_t size) {
  shared.slots[slot] = static_cast<char*>(bench::Allocate(size));
  shared.slots[slot][0] = 1;
  shared.slots[slot][size - 1] = 1;
  shared.sizes[slot] = static_cast<uint16_t>(size);
}

void Work(Shared& shared, const Settings& settings, size_t index) {
  bench::Random random(index + 51);
  size_t first = index * settings.live;
  for (size_t i = 0; i < settings.live; ++i) {
    Replace(shared, first + i, random.Between(settings.least, settings.most));
  }
  shared.filled.Wait();
  shared.go.Wait();
  size_t steps = 0;
  for (; steps < settings.steps / settings.threads; ++steps) {
    if (steps % 256 == 0 && bench::Now() > shared.end) break;
    size_t slot = first + random.Below(settings.live);
    std::free(shared.slots[slot]);
    Replace(shared, slot, random.Between(settings.least, settings.most));
  }
  shared.steps += steps;
  shared.done.Wait();
  shared.leave.Wait();
  for (size_t i = 0; i < settings.live; ++i) std::free(shared.slots[first + i]);
}

double LiveBytes(Shared& shared) {
  double bytes = 0;
  for (uint16_t size : shared.sizes) bytes += size;
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  Settings settings{args.Get("threads", 64),
                    args.Get("live", 1000),
                    args.Get("least", 16),
                    args.Get("most", 512),
                    args.Get("steps", 50000000, 5000000),
                    static_cast<double>(args.Get("limit_ms", 4000, 1000)) / 1000};
  Shared shared(settings);
  auto body = [&](size_t index) { Work(shared, settings, index); };
  auto before = static_cast<double>(bench::OwnRss());
  auto count = static_cast<double>(settings.threads);
  bench::Threads threads(settings.threads, body);
  shared.filled.Wait();
  double filled = static_cast<double>(bench::OwnRss()) - before - LiveBytes(shared);
  double start = bench::Now();
  shared.end = start + settings.limit;
  shared.go.Wait();
  shared.done.Wait();
  double seconds = bench::Now() - start;
  double churned = static_cast<double>(bench::OwnRss()) - before - LiveBytes(shared);
  bench::Report("rate", 2 * static_cast<double>(shared.steps) / seconds * 1e-6, "Mops/s");
  bench::Report("rss", bench::OwnMiB(), "MiB");
  bench::Report("live", LiveBytes(shared) / bench::kMiB, "MiB");
  bench::Report("beyond_live_filled", filled / count / 1024, "KiB/thread");
  bench::Report("beyond_live", churned / count / 1024, "KiB/thread");
  shared.leave.Wait();
  threads.Join();
  bench::Sleep(1);
  bench::Report("rss_after", bench::OwnMiB(), "MiB");
}
