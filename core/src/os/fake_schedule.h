// Threads that run one at a time and switch only where a thread takes or releases a lock or purges
// memory. A test can therefore choose a schedule, and repeat it by its number.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "os/fake_os.h"
#include "os/mutex.h"

namespace granary {

class FakeSchedule {
 public:
  // Chooses the thread for the next turn, at turn `turn` of thread `current`. `blocked` is true if
  // the current thread waits for a lock.
  using Choose = std::function<size_t(size_t turn, size_t current, bool blocked)>;

  static void Run(const std::vector<std::function<void()>>& bodies, Choose choose) {
    FakeSchedule schedule(bodies.size(), std::move(choose));
    running = &schedule;
    std::vector<std::thread> threads;
    for (size_t id = 0; id < bodies.size(); ++id) {
      threads.emplace_back([&schedule, &bodies, id] {
        self = id;
        schedule.AwaitTurn();
        bodies[id]();
        schedule.Finish();
      });
    }
    for (std::thread& thread : threads) thread.join();
    turns = schedule.turn_;
    running = nullptr;
  }

  // Marks a point where another thread may get its turn. Does nothing outside of Run.
  static void Yield(bool blocked = false) {
    if (running != nullptr && self != kNever) running->Pass(blocked);
  }

  // The number of turns in the last run.
  static inline size_t turns = 0;

 private:
  static constexpr size_t kMostTurns = 100000;

  FakeSchedule(size_t threads, Choose choose)
      : choose_(std::move(choose)), finished_(threads, false) {}

  void AwaitTurn() {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [this] { return current_ == self; });
  }

  void Pass(bool blocked) {
    std::unique_lock hold(mutex_);
    GRANARY_CHECK(++turn_ < kMostTurns);  // fails if every thread waits for another
    current_ = Next(choose_(turn_, self, blocked), blocked);
    if (current_ == self) return;
    changed_.notify_all();
    changed_.wait(hold, [this] { return current_ == self; });
  }

  void Finish() {
    std::lock_guard hold(mutex_);
    finished_[self] = true;
    for (size_t id = 0; id < finished_.size(); ++id) {
      if (!finished_[id]) current_ = id;
    }
    changed_.notify_all();
  }

  // A thread that can run: `wanted`, or the next thread after it.
  size_t Next(size_t wanted, bool blocked) const {
    for (size_t i = 0; i < finished_.size(); ++i) {
      const size_t id = (wanted + i) % finished_.size();
      if (!finished_[id] && !(blocked && id == self)) return id;
    }
    return self;
  }

  static inline FakeSchedule* running = nullptr;
  static inline thread_local size_t self = kNever;

  Choose choose_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> finished_;
  size_t current_ = 0;
  size_t turn_ = 0;
};

// The fake system, with a turn at each purge.
struct SteppedOs : FakeOs {
  static bool Purge(void* p, size_t bytes) noexcept {
    FakeSchedule::Yield();
    const bool done = FakeOs::Purge(p, bytes);
    FakeSchedule::Yield();
    return done;
  }
  static void Wait(std::atomic<uint32_t>& word, uint32_t value) noexcept {
    while (word == value) FakeSchedule::Yield(true);
  }
  static void Wake(std::atomic<uint32_t>&) noexcept {}
  // No thread is inside a restartable sequence when another thread has its turn.
  static bool AbortRestartables() noexcept { return true; }
};

template <>
class Mutex<SteppedOs> {
 public:
  void Lock() noexcept {
    FakeSchedule::Yield();
    while (held_) FakeSchedule::Yield(true);
    held_ = true;
  }
  bool TryLock() noexcept {
    FakeSchedule::Yield();
    return !std::exchange(held_, true);
  }
  void Unlock() noexcept {
    GRANARY_CHECK(held_);
    held_ = false;
    FakeSchedule::Yield();
  }
  void Reset() noexcept { held_ = false; }
  uint64_t contentions() const { return 0; }

 private:
  bool held_ = false;
};

static_assert(Os<SteppedOs>);

}  // namespace granary
