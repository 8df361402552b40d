// The mailbox for requests from outside the process. `granary ctl` writes a command into this
// structure, and the process writes the answer beside it. The background thread serves the request;
// a futex in the library's own file wakes it (inspection/note.h). Without a background thread, the
// next slow path serves the request.
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
    kPurge = 1,  // purge all free memory; the value is the bytes purged
    kSet = 2,    // apply options, "name:value,..."
    kFlush = 3,  // flush the caches to the slabs; the value is the bytes flushed
    kReset = 4,  // reset the peaks
    // Start sampling. The argument is the mean number of bytes between samples (empty: option
    // prof_sample). The value is 1 if no profile existed before.
    kProfileStart = 5,
    kProfileStop = 6,   // stop sampling and discard the profile
    kProfileReset = 7,  // discard the profile and continue with an empty one
  };
  enum class Result : uint32_t { kDone = 0, kRefused = 1, kUnknown = 2 };
  static constexpr size_t kMaxArgument = 512;  // with the terminating zero

  // Whether a request has no answer yet.
  bool Pending() const noexcept {
    return requested_.load(std::memory_order_acquire) != answered_.load(std::memory_order_relaxed);
  }
  // A word, and the value that it keeps until the next request.
  Linux::Awaited asked() const noexcept {
    return {&requested_, answered_.load(std::memory_order_relaxed)};
  }
  // Serves the pending request with run(command, argument, &value), unless another thread is
  // serving it. The caller holds no lock.
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
  // Called in the child of a fork: the parent answers its own requests.
  void Forget() noexcept {
    answered_.store(requested_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    busy_.store(false, std::memory_order_relaxed);
  }

 private:
  friend struct DescriptorRows;

  // A number that the client chooses and writes last. The process writes the same number to
  // answered_ when it has served the request.
  std::atomic<uint32_t> requested_{0}, answered_{0};
  Command command_{};
  Result result_{};
  uint64_t value_ = 0;
  char argument_[kMaxArgument] = {};
  std::atomic<bool> busy_{false};
};

}  // namespace granary
