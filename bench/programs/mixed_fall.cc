// A service's mix of sizes, churned; then nine tenths are freed at random. Measures how much memory
// without live objects stays resident. Live bytes are the requested bytes.
#include "bench.h"

namespace {

struct Band {
  size_t share, least, most;  // share in percent, cumulative
};

constexpr Band kBands[] = {{60, 8, 128}, {90, 129, 1024}, {99, 1025, 16384}, {100, 16385, 221184}};

size_t PickSize(bench::Random& random) {
  size_t roll = random.Below(100);
  for (const Band& band : kBands) {
    if (roll < band.share) return random.Between(band.least, band.most);
  }
  return 8;
}

struct Object {
  char* block;
  uint32_t size;
};

class Heap {
 public:
  explicit Heap(size_t count) : objects_(count), count_(count) {}

  void Fill(bench::Random& random) {
    for (Object& object : objects_) Make(object, random);
  }
  void Churn(size_t steps, bench::Random& random) {
    for (size_t i = 0; i < steps; ++i) {
      Object& object = objects_[random.Below(objects_.size())];
      Drop(object);
      Make(object, random);
    }
  }
  void Fall(size_t left, bench::Random& random) {
    while (count_ > left) {
      Object& victim = objects_[random.Below(count_)];
      Drop(victim);
      std::swap(victim, objects_[--count_]);
    }
  }
  void Report(const char* name) const {
    bench::Report(name, static_cast<double>(bench::OwnRss()) / static_cast<double>(live_),
                  "RSS/live");
  }

 private:
  void Make(Object& object, bench::Random& random) {
    size_t size = PickSize(random);
    object = {static_cast<char*>(bench::Allocate(size)), static_cast<uint32_t>(size)};
    std::memset(object.block, 1, size);
    live_ += size;
  }
  void Drop(Object& object) {
    std::free(object.block);
    live_ -= object.size;
  }

  bench::Mapped<Object> objects_;
  size_t count_;
  size_t live_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t count = args.Get("objects", 200000, 40000);
  size_t steps = args.Get("steps", 3000000, 200000);
  auto settle = static_cast<double>(args.Get("settle_ms", 2000)) / 1000;
  auto longer = static_cast<double>(args.Get("longer_ms", 0)) / 1000;
  bench::Random random(args.Get("seed", 81));
  Heap heap(count);
  heap.Fill(random);
  heap.Report("filled");
  double start = bench::Now();
  heap.Churn(steps, random);
  bench::Report("churn_time", (bench::Now() - start) * 1e9 / static_cast<double>(2 * steps),
                "ns/op");
  heap.Report("churned");
  heap.Fall(count / 10, random);
  heap.Report("fallen_at_once");
  bench::LightUse(settle);
  heap.Report("fallen");
  if (longer > 0) {
    bench::LightUse(longer);
    heap.Report("fallen_longer");
  }
}
