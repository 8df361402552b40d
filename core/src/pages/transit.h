// Memory in transit: taken out of the page heap while one thread asks the system to purge, fault in
// or move its pages. Nobody else can have it meanwhile, and nobody waits for the system but a
// thread that finds no other memory.
#pragma once

#include <cstddef>

#include "pages/page_core.h"

namespace granary {

template <Os System>
class Transit {
 public:
  void Bind(PageCore<System>& core) { core_ = &core; }

  // All of this is called with the lock of the page heap. `count` trackers from `first` on, which
  // are out of the free runs already, are in transit until Return.
  void Take(Tracker* first, size_t count) {
    for (size_t i = 0; i < count; ++i) core_->At(first, i)->state = Tracker::State::kTransit;
    ++busy_;
  }
  void Return(Tracker* first, size_t count) {
    --busy_;
    core_->free.Add(first, count);
  }

  // Instead of Return, where the trackers are to be forgotten.
  void Drop() { --busy_; }

  // Lets go of the lock for a system call about memory that nobody else can have.
  class Unlocked {
   public:
    explicit Unlocked(Transit& transit) : transit_(transit) {
      ++transit_.busy_;
      transit_.core_->mutex.Unlock();
    }
    ~Unlocked() {
      transit_.core_->mutex.Lock();
      --transit_.busy_;
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    Transit& transit_;
  };

  // For a thread that finds no memory: false if none is in transit. Otherwise lets go of the lock
  // for a moment; then it is worth another try.
  bool Await() {
    if (busy_ == 0) return false;
    core_->mutex.Unlock();
    Pause();
    core_->mutex.Lock();
    return true;
  }

  // In the child of a fork: what other threads had in transit is lost.
  void Forget() { busy_ = 0; }

 private:
  PageCore<System>* core_ = nullptr;
  size_t busy_ = 0;
};

}  // namespace granary
