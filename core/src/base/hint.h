// A value that one thread at a time writes, under a lock, and any thread reads without: what it
// reads may be old, and nothing else is ordered by it.
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
