// Days of a service in minutes: sizes drift from day to day, most objects die young and some live
// for days, load rises and falls with the hour, and by night most objects have been freed.
//
//   soak days=7 seconds=10 mib=200 threads=4
//
// `seconds` is how long a day takes, `mib` how much is live at noon. Prints RSS and the requested
// bytes at noon and by night of each day as `point NAME DAY BYTES`, and metrics at the end.
#include <cmath>

#include <atomic>

#include "bench.h"

namespace {

struct Object {
  double dies;  // in days
  void* at;
  size_t size;
};

// The object that dies first is on top.
bool Later(const Object& a, const Object& b) { return a.dies > b.dies; }

std::atomic<size_t> live{0};
std::atomic<bool> over{false};
double start = 0, day_seconds = 10, most = 0;

double Day() { return (bench::Now() - start) / day_seconds; }

double Uniform(bench::Random& random) {
  return (static_cast<double>(random.Next() >> 11) + 0.5) / 9007199254740992.0;
}

// The load at an hour: lowest by night, highest at noon.
double Load(double day) {
  const double sine = std::sin(M_PI * (day - std::floor(day)));
  return 0.05 + 0.95 * sine * sine;
}

// Log-normal; its median moves by a factor of four up and down within a week.
size_t Size(bench::Random& random, double day) {
  const double normal =
      std::sqrt(-2 * std::log(Uniform(random))) * std::cos(2 * M_PI * Uniform(random));
  const double middle = 200 * std::exp2(2 * std::sin(2 * M_PI * day / 7));
  return static_cast<size_t>(std::clamp(middle * std::exp(1.2 * normal), 8.0, 1048576.0));
}

// Pareto with exponent 1.1: most objects live for minutes, a few for days.
double Lifetime(bench::Random& random) {
  return std::min(3.0, 0.005 * std::pow(Uniform(random), -1 / 1.1));
}

// The objects of one thread: a heap ordered by time of death.
class Shift {
 public:
  Shift(size_t index, size_t room) : objects_(room), random_(index + 1) {}

  void Work() {
    const double day = Day();
    while (count_ > 0 && objects_[0].dies <= day) FreeFirst();
    const bool enough =
        static_cast<double>(live.load(std::memory_order_relaxed)) > most * Load(day);
    if (!enough) {
      for (int i = 0; i < 200 && count_ < objects_.size(); ++i) Add(day);
    }
    bench::Sleep(enough ? 0.002 : 0.0002);
  }

  void End() {
    while (count_ > 0) FreeFirst();
  }

 private:
  void Add(double day) {
    const size_t size = Size(random_, day);
    void* at = bench::Allocate(size);
    std::memset(at, 1, size);
    live.fetch_add(size, std::memory_order_relaxed);
    objects_[count_++] = {day + Lifetime(random_), at, size};
    std::push_heap(objects_.begin(), objects_.begin() + count_, Later);
  }

  void FreeFirst() {
    std::pop_heap(objects_.begin(), objects_.begin() + count_, Later);
    const Object& object = objects_[--count_];
    std::free(object.at);
    live.fetch_sub(object.size, std::memory_order_relaxed);
  }

  bench::Mapped<Object> objects_;
  bench::Random random_;
  size_t count_ = 0;
};

// RSS per live byte at a time of day, printed and returned.
double Read(double day, const char* when) {
  while (Day() < day) bench::Sleep(0.002);
  const size_t rss = bench::OwnRss(), asked = std::max<size_t>(1, live.load());
  std::printf("point RSS_%s %d %zu\npoint live_%s %d %zu\n", when, static_cast<int>(day), rss, when,
              static_cast<int>(day), asked);
  std::fflush(stdout);
  return static_cast<double>(rss) / static_cast<double>(asked);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Args args(argc, argv);
  const size_t days = std::max<size_t>(2, args.Get("days", 7, 2));
  const size_t threads = args.Get("threads", 4);
  const size_t mib = args.Get("mib", 200, 20);
  day_seconds = static_cast<double>(args.Get("seconds", 10, 1));
  most = static_cast<double>(mib) * bench::kMiB;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const size_t room = std::max<size_t>(100000, mib * 16384 / threads);
  start = bench::Now();
  bench::Threads workers(threads, [room](size_t index) {
    Shift shift(index, room);
    while (!over.load(std::memory_order_relaxed)) shift.Work();
    shift.End();
  });
  double noon = 0, night = 0, second_night = 0, last_night = 0;
  for (size_t day = 0; day < days; ++day) {
    const double at_noon = Read(static_cast<double>(day) + 0.5, "noon");
    last_night = Read(static_cast<double>(day) + 0.99, "night");
    if (day == 0) continue;  // the first day only fills the heap
    if (day == 1) second_night = last_night;
    noon += at_noon / static_cast<double>(days - 1);
    night += last_night / static_cast<double>(days - 1);
  }
  over = true;
  workers.Join();
  bench::Report("RSS/live_at_noon", noon, "ratio");
  bench::Report("RSS/live_by_night", night, "ratio");
  bench::Report("drift_of_RSS/live_by_night", last_night / second_night, "ratio");
  bench::Sleep(2);
  bench::Report("RSS_2_s_after_the_end", static_cast<double>(bench::OwnRss()), "bytes");
}
