#include "os/condition.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "os/linux.h"

namespace granary {
namespace {

struct Turns {
  Mutex<Linux> mutex;
  Condition<Linux> changed;
  int turn = 0;
};

TEST(Condition, AllThreadsThatWaitGoOn) {
  constexpr int kThreads = 4, kRounds = 2000;
  Turns turns;
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&turns, id] {
      for (int round = 0; round < kRounds; ++round) {
        Locked hold(turns.mutex);
        while (turns.turn % kThreads != id) turns.changed.Wait(turns.mutex);
        ++turns.turn;
        turns.changed.NotifyAll();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns.turn, kThreads * kRounds);
}

// A waiter that spins would keep a thread of lower priority from ending its work.
TEST(Condition, AWaiterSleeps) {
  Turns turns;
  std::atomic<long> sleeps{0};
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    Locked hold(turns.mutex);
    waits = true;
    while (turns.turn == 0) turns.changed.Wait(turns.mutex);
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    sleeps = usage.ru_nvcsw;
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  {
    Locked hold(turns.mutex);
    turns.turn = 1;
    turns.changed.NotifyAll();
  }
  waiter.join();
  EXPECT_GE(sleeps, 1);
}

}  // namespace
}  // namespace granary
