// Callbacks of the program at amounts of held memory (granary_add_threshold).
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

  // False if all rows are in use.
  bool Add(size_t bytes, granary_threshold_callback callback, void* context) noexcept;
  // False if there is no such row.
  bool Remove(granary_threshold_callback callback, void* context) noexcept;

  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  // Calls the callbacks whose amounts `held` has crossed. Called with no lock held, where the
  // program may allocate.
  void Check(size_t held) noexcept;
  // Called in the child of a fork.
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
  // one thread at a time calls back, and no callback calls another
  std::atomic<bool> calling_{false};
  Row rows_[kMost] = {};
};

}  // namespace granary
