// Ten thousand threads in waves of up to 4,096 at the same time, each with a small live set that
// the next wave frees.
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "../check.h"

namespace {

constexpr size_t kAll = 10000;
constexpr size_t kWave = 4096;
constexpr size_t kBlocks = 8;

struct Inheritance {
  void* blocks[kBlocks];
  size_t sizes[kBlocks];
};

pthread_barrier_t g_everyone_is_here;
std::vector<Inheritance> g_left(kWave);

void Check(Inheritance& left, size_t id) {
  for (size_t i = 0; i < kBlocks; ++i) {
    if (left.blocks[i] == nullptr) continue;
    CHECK(PatternHolds(left.blocks[i], left.sizes[i], id + i));
    free(left.blocks[i]);
    left.blocks[i] = nullptr;
  }
}

void Leave(Inheritance& left, size_t id) {
  uint64_t random = id;
  for (size_t i = 0; i < kBlocks; ++i) {
    left.sizes[i] = RandomSize(&random, 13);
    left.blocks[i] = malloc(left.sizes[i]);
    CHECK(left.blocks[i] != nullptr);
    FillPattern(left.blocks[i], left.sizes[i], id + i);
  }
}

void* Live(void* argument) {
  const auto id = reinterpret_cast<size_t>(argument);
  Check(g_left[id], id);
  Inheritance own = {};
  Leave(own, id * 7);
  pthread_barrier_wait(&g_everyone_is_here);
  Check(own, id * 7);
  Leave(g_left[id], id);
  return nullptr;
}

void RunWave(size_t count) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  const auto least = static_cast<size_t>(sysconf(_SC_THREAD_STACK_MIN));  // 128 KiB on arm64
  CHECK(pthread_attr_setstacksize(&attributes, std::max(least, size_t{32} << 10)) == 0);
  CHECK(pthread_barrier_init(&g_everyone_is_here, nullptr, static_cast<unsigned>(count)) == 0);
  std::vector<pthread_t> threads(count);
  for (size_t id = 0; id < count; ++id) {
    if (pthread_create(&threads[id], &attributes, Live, reinterpret_cast<void*>(id)) != 0) {
      SkipTest("the system does not allow this many threads.");
    }
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  pthread_barrier_destroy(&g_everyone_is_here);
  pthread_attr_destroy(&attributes);
}

}  // namespace

int main() {
  for (size_t left = kAll; left > 0;) {
    const size_t count = left < kWave ? left : kWave;
    RunWave(count);
    left -= count;
  }
  for (size_t id = 0; id < kWave; ++id) Check(g_left[id], id);
}
