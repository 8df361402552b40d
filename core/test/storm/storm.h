// Shared by all storms: --smoke (the default, a few seconds) or --long N (N seconds), a printed
// seed that --seed N repeats, a group of threads, and a deadline.
#ifndef GRANARY_TEST_STORM_STORM_H_
#define GRANARY_TEST_STORM_STORM_H_

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <vector>

#include "../check.h"

namespace storm {

constexpr int kSmokeSeconds = 2;

struct Options {
  int seconds = kSmokeSeconds;
  uint64_t seed = 1;
};

inline Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--smoke") == 0) {
      options.seconds = kSmokeSeconds;
    } else if (strcmp(argv[i], "--long") == 0 && i + 1 < argc) {
      options.seconds = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      options.seed = strtoull(argv[++i], nullptr, 0);
    } else {
      fprintf(stderr, "usage: %s [--smoke | --long SECONDS] [--seed NUMBER]\n", argv[0]);
      exit(2);
    }
  }
  printf("seed %llu, %d s\n", static_cast<unsigned long long>(options.seed), options.seconds);
  fflush(stdout);
  return options;
}

inline double Now() {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Deadline {
 public:
  explicit Deadline(int seconds) : end_(Now() + seconds) {}
  bool Passed() const { return Now() >= end_; }

 private:
  double end_;
};

// An object that contains what is needed to check it, so that any thread can check it.
struct Block {
  void* address = nullptr;
  size_t size = 0;
  uint64_t seed = 0;
};

inline Block Allocate(uint64_t* random, unsigned max_log2) {
  Block block;
  block.size = RandomSize(random, max_log2);
  block.seed = NextRandom(random);
  switch (block.seed % 16) {
    case 0:
      block.address = calloc(1, block.size);
      CHECK(block.address != nullptr && AllZero(block.address, block.size));
      break;
    case 1:
      CHECK(posix_memalign(&block.address, size_t{8} << (block.seed >> 4) % 12, block.size) == 0);
      break;
    default:
      block.address = malloc(block.size);
  }
  CHECK(block.address != nullptr);
  FillPattern(block.address, block.size, block.seed);
  return block;
}

inline void Release(Block& block) {
  if (block.address == nullptr) return;
  CHECK(PatternHolds(block.address, block.size, block.seed));
  free(block.address);
  block = {};
}

inline void Resize(Block& block, uint64_t* random, unsigned max_log2) {
  const size_t size = RandomSize(random, max_log2) + 1;
  const size_t kept = size < block.size ? size : block.size;
  block.address = realloc(block.address, size);
  CHECK(block.address != nullptr);
  CHECK(PatternHolds(block.address, kept, block.seed));
  block.size = size;
  FillPattern(block.address, size, block.seed);
}

using Body = void (*)(size_t index, uint64_t seed);

struct Start {
  Body body;
  size_t index;
  uint64_t seed;
};

inline void* RunBody(void* argument) {
  const auto* start = static_cast<Start*>(argument);
  start->body(start->index, start->seed);
  return nullptr;
}

// Runs `body` in `count` threads, each with its own seed, and waits for them.
inline void RunThreads(size_t count, uint64_t seed, Body body) {
  std::vector<pthread_t> threads(count);
  std::vector<Start> starts(count);
  for (size_t i = 0; i < count; ++i) {
    starts[i] = {body, i, seed * 1000003 + i};
    CHECK(pthread_create(&threads[i], nullptr, RunBody, &starts[i]) == 0);
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace storm

#endif  // GRANARY_TEST_STORM_STORM_H_
