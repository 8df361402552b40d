// A condition variable: a thread that holds a mutex waits until another thread, which takes the
// same mutex meanwhile, notifies it. The wait spins briefly, then sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/mutex.h"

namespace granary {

template <class System>
class Condition {
 public:
  // The caller holds the mutex, which is free during the wait. May return without a notification.
  void Wait(Mutex<System>& mutex) noexcept {
    ++waiting_;
    const uint32_t before = notifications_.load(std::memory_order_relaxed);
    mutex.Unlock();
    for (int spin = 0; spin < 100 && !Changed(before); ++spin) Pause();
    if (!Changed(before)) System::Wait(notifications_, before);
    mutex.Lock();
    --waiting_;
    WakeOne();  // one thread wakes the next
  }

  // Ends the wait of all threads. The caller holds the mutex.
  void NotifyAll() noexcept {
    notifications_.store(notifications_.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
    WakeOne();
  }

  // For the child of a fork: the threads that waited do not exist there.
  void Reset() noexcept { waiting_ = 0; }

 private:
  bool Changed(uint32_t before) const {
    return notifications_.load(std::memory_order_acquire) != before;
  }
  void WakeOne() noexcept {
    if (waiting_ > 0) System::Wake(notifications_);
  }

  std::atomic<uint32_t> notifications_{0};
  uint32_t waiting_ = 0;
};

}  // namespace granary
