// Density over the life of a cache: fills it with small objects, frees three quarters at random,
// refills it with sizes twice as large, frees everything. Prints RSS over live (requested) bytes at
// each point.
#include "bench.h"

namespace {

class Store {
 public:
  explicit Store(size_t capacity) : blocks_(capacity), sizes_(capacity) {}

  // Adds objects of `least` to `most` bytes until `target` bytes are live.
  void Fill(size_t target, size_t least, size_t most, bench::Random& random) {
    while (live_ < target) {
      if (count_ == blocks_.size()) bench::Fail("the store is too small for the sizes asked");
      size_t size = random.Between(least, most);
      auto* block = static_cast<char*>(bench::Allocate(size));
      std::memset(block, 1, size);
      blocks_[count_] = block;
      sizes_[count_++] = static_cast<uint16_t>(size);
      live_ += size;
    }
  }

  // Frees objects in random order until `share` of the present live bytes are left.
  void Shrink(double share, bench::Random& random) {
    auto target = static_cast<size_t>(share * static_cast<double>(live_));
    while (count_ > 0 && live_ > target) {
      size_t victim = random.Below(count_);
      std::free(blocks_[victim]);
      live_ -= sizes_[victim];
      --count_;
      blocks_[victim] = blocks_[count_];
      sizes_[victim] = sizes_[count_];
    }
  }

  void Report(const char* name) const {
    auto rss = static_cast<double>(bench::OwnRss());
    bench::Report(name, rss / static_cast<double>(live_), "RSS/live");
  }

 private:
  bench::Mapped<char*> blocks_;
  bench::Mapped<uint16_t> sizes_;
  size_t count_ = 0;
  size_t live_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t target = args.Get("mib", 1024, 128) << 20;
  size_t least = args.Get("least", 16);
  size_t most = args.Get("most", 512);
  auto settle = static_cast<double>(args.Get("settle_ms", 2000)) / 1000;
  auto long_idle = static_cast<double>(args.Get("long_idle_ms", 0)) / 1000;
  bench::Random random(args.Get("seed", 71));
  Store store(target / ((least + most) / 2) * 11 / 10 + 1000);
  double before = bench::OwnMiB();
  double start = bench::Now();
  store.Fill(target, least, most, random);
  bench::Report("fill_time", bench::Now() - start, "s");
  store.Report("filled");
  store.Shrink(0.25, random);
  store.Report("fallen_at_once");
  bench::LightUse(settle);
  store.Report("fallen_light_use");
  bench::Sleep(settle);
  store.Report("fallen_idle");
  store.Fill(target, 2 * least, 2 * most, random);
  store.Report("refilled");
  store.Shrink(0, random);
  bench::Sleep(settle);
  bench::Report("emptied_idle_over_start", bench::OwnMiB() - before, "MiB");
  bench::LightUse(settle);
  bench::Report("emptied_light_use_over_start", bench::OwnMiB() - before, "MiB");
  if (long_idle > 0) {
    bench::Sleep(long_idle);
    bench::Report("emptied_long_idle_over_start", bench::OwnMiB() - before, "MiB");
  }
}
