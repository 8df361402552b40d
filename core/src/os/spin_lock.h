// A lock for a few instructions, in code below linux.h, which cannot wait for a word.
#pragma once

#include <atomic>

#include "os/mutex.h"
#include "os/system_call.h"

namespace granary {

class SpinLock {
 public:
  void Lock() noexcept {
    ++locks_held;
    for (int spin = 0; held_.exchange(true, std::memory_order_acquire); ++spin) {
      if (spin < kSpins) {
        Pause();
      } else {
        Sleep();
      }
    }
  }
  void Unlock() noexcept {
    held_.store(false, std::memory_order_release);
    --locks_held;
  }
  // For the child of a fork, whose thread holds the lock.
  void Reset() noexcept { held_.store(false, std::memory_order_relaxed); }

 private:
  static constexpr int kSpins = 100;

  // The thread that holds the lock may need this CPU and have a lower priority, so that neither a
  // spin nor a yield would let it run.
  GRANARY_COLD static void Sleep() noexcept {
    const long time[2] = {0, 50'000};
    Call(call::nanosleep, Bits(time), 0);
  }

  std::atomic<bool> held_{false};
};

}  // namespace granary
