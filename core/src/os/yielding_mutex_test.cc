#include "os/yielding_mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "os/linux.h"

namespace granary {
namespace {

TEST(YieldingMutex, AWaiterGetsTheLockBetweenTwoSteps) {
  YieldingMutex<Linux> mutex;
  std::atomic<bool> waits{false}, served{false};
  mutex.Lock();
  std::thread other([&] {
    waits = true;
    mutex.Lock();
    served = true;
    mutex.Unlock();
  });
  while (!waits) std::this_thread::yield();
  // A holder that never lets a waiter go first would make this loop endless.
  while (!served) mutex.Yield();
  mutex.Unlock();
  other.join();
}

TEST(YieldingMutex, ExcludesThreadsThatYieldAndThreadsThatDoNot) {
  YieldingMutex<Linux> mutex;
  uint64_t sum = 0;
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      for (int round = 0; round < 500; ++round) {
        Locked hold(mutex);
        for (int step = 0; step < 4; ++step) {
          ++sum;
          if (id % 2 == 0) mutex.Yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 4u * 500 * 4);
}

// As a fork copies it while another thread waits for it.
void Copy(const YieldingMutex<Linux>& from, YieldingMutex<Linux>* to) {
  static_assert(sizeof from % sizeof(uint32_t) == 0);
  for (size_t i = 0; i < sizeof from / sizeof(uint32_t); ++i) {
    const uint32_t word =
        __atomic_load_n(reinterpret_cast<const uint32_t*>(&from) + i, __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<uint32_t*>(to) + i, word, __ATOMIC_RELAXED);
  }
}

TEST(YieldingMutex, AChildOfAForkWaitsForNoThread) {
  YieldingMutex<Linux> mutex;
  std::atomic<bool> waits{false};
  mutex.Lock();
  std::thread other([&] {
    waits = true;
    Locked hold(mutex);
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  YieldingMutex<Linux> child;  // as after a fork: a waiter is registered that does not exist
  Copy(mutex, &child);
  child.Reset();
  child.Lock();
  child.Yield();
  child.Unlock();
  mutex.Unlock();
  other.join();
}

}  // namespace
}  // namespace granary
