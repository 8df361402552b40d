// How much the heap may hold: what the options, the memory cgroup and the machine's memory pressure
// (PSI, Documentation/accounting/psi.rst of the kernel) leave it. Read once in each decay interval.
#pragma once

#include <atomic>
#include <cstddef>

#include "limits/cgroup.h"

namespace granary {

// Switches on at one level, and off again only well below that level.
class Switch {
 public:
  bool Set(bool reach, bool leave) {
    on_ = on_ ? !leave : reach;
    return on_;
  }
  bool on() const { return on_; }

 private:
  bool on_ = false;
};

class Limits {
 public:
  static constexpr size_t kNone = ~size_t{0};

  // `root` is put before every path that is read; nullptr is the real file system. A zeroed object
  // is valid, because its owner is in zeroed memory.
  explicit constexpr Limits(const char* root = nullptr) : root_(root), group_(root) {}

  // Reads the limits and the memory pressure now. `held` is the number of held bytes, without the
  // clean pages of slabs. One caller at a time.
  void Refresh(size_t held) noexcept;

  // The held bytes, as in Refresh, above which the heap purges free memory immediately. Any thread.
  size_t ceiling() const noexcept {
    const size_t bytes = ceiling_.load(std::memory_order_relaxed);
    return bytes == 0 ? kNone : bytes;
  }
  // The heap needs more than the ceiling allows: it rises until the next Refresh.
  void Raise(size_t bytes) noexcept { ceiling_.store(bytes, std::memory_order_relaxed); }
  // Memory is scarce: nothing unused is worth keeping. Any thread.
  bool under_pressure() const noexcept { return under_pressure_.load(std::memory_order_relaxed); }

 private:
  friend struct DescriptorRows;
  size_t ResidentSet() noexcept;
  size_t GroupCeiling(size_t held) noexcept;
  bool PressureIsHigh() noexcept;

  // A group without a limit is read again after so many calls of Refresh.
  static constexpr unsigned kRefreshesToSkip = 16;

  std::atomic<size_t> ceiling_{0};  // 0 before the first Refresh
  std::atomic<bool> under_pressure_{false};
  const char* root_;
  Cgroup group_;
  unsigned skip_ = 0;
  Switch scarce_, stalled_;
  FileText text_;
};

}  // namespace granary
