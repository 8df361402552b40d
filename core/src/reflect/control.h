// Requests from outside the process: words that the command `granary ctl` writes into this
// structure. They are acted on by the helper thread, which a futex in the library's own file wakes
// (reflect/note.h), or at the next slow path where there is no helper; then acknowledged here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/linux.h"

namespace granary {

class Control {
 public:
  enum class Command : uint32_t {
    kPurge = 1,  // give all free memory back; the value is the bytes that went
    kSet = 2,    // apply options, "name:value,..."
    kFlush = 3,  // send what the caches hold to the slabs; the value is the bytes that went
    kReset = 4,  // the peaks count from now on
    // Take samples, one in so many bytes as the argument says (empty: option prof_sample); the
    // value is 1 if none were taken before.
    kProfileStart = 5,
    kProfileStop = 6,   // take none, and discard what was collected
    kProfileReset = 7,  // discard it, and go on
  };
  enum class Result : uint32_t { kDone = 0, kRefused = 1, kUnknown = 2 };
  static constexpr size_t kMaxArgument = 512;  // with the zero at its end

  // Whether somebody asked for something that nobody has done yet.
  bool Pending() const noexcept {
    return requested_.load(std::memory_order_acquire) != answered_.load(std::memory_order_relaxed);
  }
  // What stays as it is until somebody asks.
  Linux::Awaited asked() const noexcept {
    return {&requested_, answered_.load(std::memory_order_relaxed)};
  }
  // Does what is asked for, unless another thread is at it. No lock may be held.
  GRANARY_COLD void Serve() noexcept;
  // In the child of a fork: what was asked of the parent is the parent's.
  void Forget() noexcept;

 private:
  friend struct Layout;
  Result Run(Command command, const char* argument) noexcept;

  // A number that the asker chooses, written after the rest; and the same when it is done.
  std::atomic<uint32_t> requested_{0}, answered_{0};
  Command command_{};
  Result result_{};
  uint64_t value_ = 0;
  char argument_[kMaxArgument] = {};
  std::atomic<bool> busy_{false};
};

}  // namespace granary
