// The figures in a file, for readers that may not read the memory of this process. With the option
// stats_file, the file /dev/shm/granary.PID.START is written once a second; START is when the
// process started, in ticks since the boot. It is a core file with only the memory that the figures
// are computed from, so that a reader of core files can read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace granary {

class Publisher {
 public:
  static constexpr uint64_t kEveryMillis = 1000;

  // Called on slow paths and from the background thread, with no lock held.
  void Poll(uint64_t now) noexcept {
    if (now >= next_.load(std::memory_order_relaxed)) Publish(now);
  }
  void Publish(uint64_t now) noexcept;
  // Called at exit.
  void Remove() noexcept;
  // Called in the child of a fork, which writes a file of its own.
  void Forget() noexcept;

 private:
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> next_{0};
  void* head_ = nullptr;  // buffer for the head of the file
  bool published_ = false;
};

extern Publisher publisher __attribute__((visibility("hidden")));

}  // namespace granary
