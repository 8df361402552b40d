// Callbacks of the program when the heap reaches an amount of memory (granary_add_threshold).
#pragma once

#include <atomic>
#include <cstddef>

#include "granary/granary.h"
#include "os/linux.h"
#include "os/mutex.h"

namespace granary {

class Thresholds {
 public:
  static constexpr size_t kMost = 8;

  // False if there is no room for one more.
  bool Add(size_t bytes, granary_threshold_callback callback, void* context) noexcept;
  // False if it was not added.
  bool Remove(granary_threshold_callback callback, void* context) noexcept;

  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  // With no lock held, and where the program may allocate: calls the callbacks whose amount was
  // crossed.
  void Check(size_t held) noexcept;
  // In the child of a fork.
  void ResetLock() noexcept {
    mutex_.Reset();
    calling_.store(false, std::memory_order_relaxed);
  }

 private:
  struct Row {
    size_t bytes;
    granary_threshold_callback callback;
    void* context;
    bool reached;
  };

  bool TakeCrossed(size_t held, Row* crossed) noexcept;

  Mutex<Linux> mutex_;
  std::atomic<size_t> count_{0};
  std::atomic<bool> calling_{false};  // one thread at a time, and not from within a callback
  Row rows_[kMost] = {};
};

}  // namespace granary
