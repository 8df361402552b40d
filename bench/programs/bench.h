// Shared by the benchmark programs: arguments, clock, random numbers, memory that does not come
// from malloc, resident set readers, a latency histogram and the one output format.
//
// Output: lines `metric <name> <value> <unit>` on standard output, and `point <name> <seconds>
// <bytes>` for values over time. Bookkeeping is in Mapped<T>,
// which comes from mmap; OwnRss() subtracts it, so that the reported RSS is that of the allocator.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

constexpr double kMiB = 1048576.0;

[[noreturn]] inline void Fail(const char* message) {
  std::fprintf(stderr, "benchmark: %s\n", message);
  std::_Exit(1);
}

// Keeps the compiler from removing the computation of `value`.
template <class T>
inline void Keep(const T& value) {
  asm volatile("" : : "g"(value) : "memory");
}

inline void* Allocate(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) [[unlikely]]
    Fail("malloc returned NULL; run with more memory or a smaller size");
  Keep(block);
  return block;
}

inline double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline void Sleep(double seconds) {
  timespec span{static_cast<time_t>(seconds), 0};
  span.tv_nsec = static_cast<long>((seconds - static_cast<double>(span.tv_sec)) * 1e9);
  while (nanosleep(&span, &span) != 0) {
  }
}

// Prints one line of results. Formats on the stack, because reporting must not allocate.
inline void Report(const char* name, double value, const char* unit) {
  char line[160];
  int length = std::snprintf(line, sizeof line, "metric %s %.6g %s\n", name, value, unit);
  if (write(STDOUT_FILENO, line, static_cast<size_t>(length)) != length) std::_Exit(1);
}

inline void ReportPoint(const char* name, double seconds, double bytes) {
  char line[160];
  int length = std::snprintf(line, sizeof line, "point %s %.3f %.0f\n", name, seconds, bytes);
  if (write(STDOUT_FILENO, line, static_cast<size_t>(length)) != length) std::_Exit(1);
}

// The name consists of a prefix and a number: pair_64.
inline void Report(const char* prefix, size_t number, const char* suffix, double value,
                   const char* unit) {
  char name[96];
  std::snprintf(name, sizeof name, "%s%zu%s", prefix, number, suffix);
  Report(name, value, unit);
}

// Arguments of the form key=value. Every argument has a full value and a value for quick=1.
class Args {
 public:
  Args(int argc, char** argv) : argc_(argc), argv_(argv), quick_(Find("quick", 0) != 0) {}

  size_t Get(const char* key, size_t full, size_t quick) const {
    return Find(key, quick_ ? quick : full);
  }
  size_t Get(const char* key, size_t value) const { return Find(key, value); }

 private:
  size_t Find(const char* key, size_t otherwise) const {
    size_t length = std::strlen(key);
    for (int i = 1; i < argc_; ++i) {
      if (std::strncmp(argv_[i], key, length) == 0 && argv_[i][length] == '=') {
        return std::strtoull(argv_[i] + length + 1, nullptr, 0);
      }
    }
    return otherwise;
  }

  int argc_;
  char** argv_;
  bool quick_;
};

// xorshift64*: fast, and good enough for sizes and slots.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}

  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  // Uniform below `bound`, which fits in 32 bits.
  size_t Below(size_t bound) { return ((Next() >> 32) * bound) >> 32; }
  size_t Between(size_t low, size_t high) { return low + Below(high - low + 1); }

 private:
  uint64_t state_;
};

inline size_t mapped_bytes = 0;

// A fixed array of zeroes from the kernel, already touched.
template <class T>
class Mapped {
 public:
  explicit Mapped(size_t count)
      : count_(count), bytes_((count * sizeof(T) + 4095) & ~size_t{4095}) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) Fail("mmap failed; run with more memory or a smaller size");
    items_ = static_cast<T*>(memory);
    mapped_bytes += bytes_;
  }
  ~Mapped() {
    munmap(items_, bytes_);
    mapped_bytes -= bytes_;
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  T& operator[](size_t i) { return items_[i]; }
  T* begin() { return items_; }
  T* end() { return items_ + count_; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  size_t bytes_;
  T* items_;
};

template <class T>
void Shuffle(T* begin, T* end, Random& random) {
  for (size_t left = static_cast<size_t>(end - begin); left > 1; --left) {
    std::swap(begin[left - 1], begin[random.Below(left)]);
  }
}

// The number after `label` in a /proc file, without allocating.
inline size_t ProcNumber(const char* path, const char* label) {
  char text[4096];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) Fail("/proc cannot be read; mount it to measure memory");
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[std::max<ssize_t>(length, 0)] = '\0';
  const char* at = std::strstr(text, label);
  return at == nullptr ? 0 : std::strtoull(at + std::strlen(label), nullptr, 10);
}

inline size_t Rss() { return ProcNumber("/proc/self/smaps_rollup", "\nRss:") * 1024; }
inline size_t PeakRss() { return ProcNumber("/proc/self/status", "\nVmHWM:") * 1024; }
// Resident bytes without the program's own bookkeeping.
inline size_t OwnRss() { return Rss() - mapped_bytes; }
inline double OwnMiB() { return static_cast<double>(OwnRss()) / kMiB; }

// A few allocations every 10 ms, like a server between two bursts.
inline void LightUse(double seconds) {
  void* blocks[8];
  for (double end = Now() + seconds; Now() < end; Sleep(0.01)) {
    for (size_t i = 0; i < 8; ++i) *static_cast<char*>(blocks[i] = Allocate(24 + 40 * i)) = 1;
    for (void* block : blocks) std::free(block);
  }
}

// A barrier for `count` threads, on top of the libc barrier, which allocates nothing.
class Barrier {
 public:
  explicit Barrier(size_t count) {
    pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(count));
  }
  ~Barrier() { pthread_barrier_destroy(&barrier_); }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  void Wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

// Threads numbered from 0, started by the constructor and joined by Join(). Allocates nothing
// itself.
template <class Body>
class Threads {
 public:
  Threads(size_t count, Body body) : body_(std::move(body)), starts_(count) {
    for (size_t i = 0; i < count; ++i) {
      starts_[i] = {this, i, {}};
      if (pthread_create(&starts_[i].thread, nullptr, Run, &starts_[i]) != 0) {
        Fail("a thread could not be started; raise the limit of processes");
      }
    }
  }
  void Join() {
    for (Start& start : starts_) pthread_join(start.thread, nullptr);
  }

 private:
  struct Start {
    Threads* owner;
    size_t index;
    pthread_t thread;
  };
  static void* Run(void* argument) {
    auto* start = static_cast<Start*>(argument);
    start->owner->body_(start->index);
    return nullptr;
  }

  Body body_;
  Mapped<Start> starts_;
};

// Runs `body(index)` on `count` threads to their end; returns the seconds taken.
template <class Body>
double RunThreads(size_t count, Body body) {
  double start = Now();
  Threads<Body> threads(count, std::move(body));
  threads.Join();
  return Now() - start;
}

// Time stamps in ticks of the fastest ordered clock, and the length of a tick.
inline uint64_t Ticks() {
#if defined(__x86_64__)
  unsigned cpu;
  uint64_t ticks = __rdtscp(&cpu);
  _mm_lfence();
  return ticks;
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
#endif
}

inline double NanosecondsPerTick() {
  double start = Now();
  uint64_t first = Ticks();
  Sleep(0.05);
  uint64_t last = Ticks();
  return (Now() - start) * 1e9 / static_cast<double>(last - first);
}

// The ticks of an empty measurement, which callers subtract.
inline uint64_t TickOverhead() {
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < 10000; ++i) {
    uint64_t start = Ticks();
    least = std::min(least, Ticks() - start);
  }
  return least;
}

// Log-linear histogram with 64 steps per power of two: a value is off by at most 1.6 %.
class Histogram {
 public:
  Histogram() : counts_(kBuckets) {}

  void Add(uint64_t value) {
    ++counts_[Bucket(value)];
    ++total_;
    max_ = std::max(max_, value);
  }
  void Merge(Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    max_ = std::max(max_, other.max_);
  }
  uint64_t Max() const { return max_; }
  uint64_t Quantile(double fraction) {
    auto rank = static_cast<uint64_t>(fraction * static_cast<double>(total_));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen > rank) return std::min(Value(i), max_);
    }
    return max_;
  }

 private:
  static constexpr size_t kSteps = 64;
  static constexpr size_t kBuckets = 40 * kSteps;

  static size_t Bucket(uint64_t value) {
    if (value < 2 * kSteps) return value;
    auto shift = static_cast<size_t>(std::bit_width(value)) - 7;
    return std::min(shift * kSteps + (value >> shift), kBuckets - 1);
  }
  // The highest value of the bucket.
  static uint64_t Value(size_t bucket) {
    if (bucket < 2 * kSteps) return bucket;
    size_t shift = bucket / kSteps - 1;
    return ((bucket - shift * kSteps + 1) << shift) - 1;
  }

  Mapped<uint64_t> counts_;
  uint64_t total_ = 0;
  uint64_t max_ = 0;
};

}  // namespace bench
