// The mailbox for requests from outside the process: `granary ctl` writes a command into this
// structure, and the answer is written beside it. The helper thread acts on it, woken by a futex in
// the library's own file (reflect/note.h); without a helper the next slow path does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/linux.h"

namespace granary {

class Requests {
 public:
  enum class Command : uint32_t {
    kPurge = 1,  // give all free memory back; the value is the bytes that went
    kSet = 2,    // apply options, "name:value,..."
    kFlush = 3,  // send what the caches hold to the slabs; the value is the bytes that went
    kReset = 4,  // peaks are counted from now on
    // Take samples, one in so many bytes as the argument says (empty: option prof_sample); the
    // value is 1 if no profile was collected before.
    kProfileStart = 5,
    kProfileStop = 6,   // take no samples, and discard the profile
    kProfileReset = 7,  // discard the profile, and start an empty one
  };
  enum class Result : uint32_t { kDone = 0, kRefused = 1, kUnknown = 2 };
  static constexpr size_t kMaxArgument = 512;  // with the zero at its end

  // Whether a request was made that has no answer yet.
  bool Pending() const noexcept {
    return requested_.load(std::memory_order_acquire) != answered_.load(std::memory_order_relaxed);
  }
  // A word and the value that it keeps until the next request.
  Linux::Awaited asked() const noexcept {
    return {&requested_, answered_.load(std::memory_order_relaxed)};
  }
  // Answers the pending request with run(command, argument, &value), unless another thread is doing
  // so. No lock may be held.
  template <class Run>
  void Answer(Run&& run) noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    const uint32_t number = requested_.load(std::memory_order_acquire);
    if (number != answered_.load(std::memory_order_relaxed)) {
      char argument[kMaxArgument];
      __builtin_memcpy(argument, argument_, sizeof argument);
      argument[sizeof argument - 1] = 0;
      value_ = 0;
      result_ = run(command_, argument, &value_);
      answered_.store(number, std::memory_order_release);
    }
    busy_.store(false, std::memory_order_release);
  }
  // In the child of a fork: the parent answers what it was asked.
  void Forget() noexcept {
    answered_.store(requested_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    busy_.store(false, std::memory_order_relaxed);
  }

 private:
  friend struct Layout;

  // A number that the asker chooses, written after the rest; and the same number once it is done.
  std::atomic<uint32_t> requested_{0}, answered_{0};
  Command command_{};
  Result result_{};
  uint64_t value_ = 0;
  char argument_[kMaxArgument] = {};
  std::atomic<bool> busy_{false};
};

}  // namespace granary
