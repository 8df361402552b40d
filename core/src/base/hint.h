// A value that one thread at a time writes under a lock and that any thread reads without the lock.
// A reader may read an old value, and the read orders nothing else.
#pragma once

#include <atomic>

namespace granary {

template <class T>
class Hint {
 public:
  constexpr Hint() = default;

  operator T() const noexcept { return value_.load(std::memory_order_relaxed); }
  T operator=(T value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return value;
  }

 private:
  std::atomic<T> value_{};
};

}  // namespace granary
