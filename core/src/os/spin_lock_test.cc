#include "os/spin_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

namespace granary {
namespace {

// How often the thread gave up its CPU.
long Switches(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  std::string word;
  while (status >> word) {
    if (word != "voluntary_ctxt_switches:") continue;
    long count = 0;
    status >> count;
    return count;
  }
  return 0;
}

TEST(SpinLock, AWaiterLeavesItsCpuToTheHolder) {
  SpinLock lock;
  lock.Lock();
  std::atomic<pid_t> waiter{0};
  bool done = false;
  std::thread other([&] {
    waiter = gettid();
    lock.Lock();
    done = true;
    lock.Unlock();
  });
  while (waiter == 0) std::this_thread::yield();
  const long before = Switches(waiter);
  while (Switches(waiter) < before + 3) std::this_thread::yield();
  lock.Unlock();
  other.join();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace granary
