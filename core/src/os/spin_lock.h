// A lock for a few instructions, in code below linux.h, which cannot wait in the kernel.
#pragma once

#include <atomic>

#include "os/mutex.h"

namespace granary {

class SpinLock {
 public:
  void Lock() noexcept {
    ++locks_held;
    while (held_.exchange(true, std::memory_order_acquire)) Pause();
  }
  void Unlock() noexcept {
    held_.store(false, std::memory_order_release);
    --locks_held;
  }
  // For the child of a fork, whose thread holds the lock.
  void Reset() noexcept { held_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace granary
