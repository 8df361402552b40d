// A lock for long work that is done in steps. Between two steps the holder lets a waiting thread go
// first, so that a waiter is delayed by one step and not by the whole work.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/mutex.h"

namespace granary {

template <class System>
class YieldingMutex : public Mutex<System> {
 public:
  void Lock() noexcept {
    if (this->TryLock()) return;
    waiters_.fetch_add(1);
    Mutex<System>::Lock();
    waiters_.fetch_sub(1);
    turn_.fetch_add(1);
    System::Wake(turn_);
  }

  // The holder calls this at a point where another thread may work under the lock. Costs one load
  // while no thread waits.
  void Yield() noexcept {
    if (waiters_.load() == 0) return;
    const uint32_t turn = turn_.load();
    this->Unlock();
    // Without this loop, the holder would take the lock again before the waiter has woken up.
    while (turn_.load() == turn) System::Wait(turn_, turn);
    // One turn wakes one thread. A second may sleep here: it took the lock before the waiter did.
    System::Wake(turn_);
    Lock();
  }

  // In the child of a fork the waiters do not exist.
  void Reset() noexcept {
    waiters_.store(0);
    Mutex<System>::Reset();
  }

 private:
  friend struct DescriptorRows;
  std::atomic<uint32_t> waiters_{0};
  std::atomic<uint32_t> turn_{0};  // number of times a waiter got the lock
};

}  // namespace granary
