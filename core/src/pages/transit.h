// Memory in transit: removed from the free memory while one thread purges it, faults it in, or
// moves its pages. No other thread can allocate it then. A thread waits for it only if it finds no
// other memory.
#pragma once

#include <cstddef>

#include "os/condition.h"
#include "pages/page_core.h"

namespace granary {

template <Os System>
class Transit {
 public:
  void Bind(PageCore<System>& core) { core_ = &core; }

  // All functions are called with the lock of the page heap. The `count` trackers from `first` on,
  // which are out of the free runs already, are in transit until Return.
  void Take(Tracker* first, size_t count) {
    for (size_t i = 0; i < count; ++i) core_->At(first, i)->state = Tracker::State::kTransit;
    ++busy_;
  }
  void Return(Tracker* first, size_t count) {
    core_->free.Add(first, count);
    End();
  }

  // Called instead of Return if the trackers are discarded.
  void Drop() { End(); }

  // Releases the lock for a system call about memory that no other thread can use.
  class Unlocked {
   public:
    explicit Unlocked(Transit& transit) : transit_(transit) {
      ++transit_.busy_;
      transit_.core_->mutex.Unlock();
    }
    ~Unlocked() {
      transit_.core_->mutex.Lock();
      transit_.End();
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    Transit& transit_;
  };

  // For a thread that finds no memory: false if none is in transit. Otherwise releases the lock
  // until the work of another thread ends; then a retry may succeed.
  bool Await() {
    if (busy_ == 0) return false;
    ended_.Wait(core_->mutex);
    return true;
  }

  // In the child of a fork: memory that other threads had in transit is lost.
  void Forget() {
    busy_ = 0;
    ended_.Reset();
  }

 private:
  void End() {
    --busy_;
    ended_.NotifyAll();
  }

  PageCore<System>* core_ = nullptr;
  size_t busy_ = 0;
  Condition<System> ended_;
};

}  // namespace granary
