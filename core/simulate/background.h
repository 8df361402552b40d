// The library's background thread, which runs only while the simulation waits for it.
#pragma once

#include <atomic>
#include <cstdint>

namespace granary::simulate {

// Opened by one thread, passed once by the other.
class Gate {
 public:
  void Open() {
    open_.store(1);
    open_.notify_one();
  }
  void Pass() {
    open_.wait(0);
    open_.store(0);
  }

 private:
  std::atomic<uint32_t> open_{0};
};

class Background {
 public:
  // ---- the background thread's own calls ----
  // The thread has started; waits for its first turn.
  void Begin();
  // Sleeps until `until`, in nanoseconds, or until `word`, if there is one, has another value.
  void Sleep(uint64_t until, const std::atomic<uint32_t>* word, uint32_t value);

  // ---- the simulation's ----
  // The library has started the thread: waits until it is there.
  void Await();
  bool started() const { return started_; }
  uint64_t wakes_at() const { return wakes_at_; }
  bool IsWoken() const {
    return word_ != nullptr && word_->load(std::memory_order_relaxed) != value_;
  }
  // Lets the thread work until it sleeps again.
  void Run();

 private:
  bool started_ = false;
  uint64_t wakes_at_ = 0;
  const std::atomic<uint32_t>* word_ = nullptr;
  uint32_t value_ = 0;
  Gate ready_, turn_, back_;
};

}  // namespace granary::simulate
