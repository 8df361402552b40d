// A lock of one word that spins briefly, then sleeps. No thread holds it across a system call that
// waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"

namespace granary {

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// The number of locks that the calling thread holds. A signal handler that ends the program may
// have interrupted the allocator, and must then not call the allocator again.
extern __thread uint32_t locks_held
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

template <class System>
class Mutex {
 public:
  void Lock() noexcept {
    ++locks_held;
    uint32_t expected = kFree;
    if (word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) return;
    LockSlow();
  }

  bool TryLock() noexcept {
    ++locks_held;
    if (TryTake()) return true;
    --locks_held;
    return false;
  }

  void Unlock() noexcept {
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (word_.exchange(kFree, std::memory_order_release) == kContended) System::Wake(word_);
    --locks_held;
  }

  // For the child of a fork: the thread that held the lock does not exist there.
  void Reset() noexcept { word_.store(kFree, std::memory_order_relaxed); }

  uint64_t contentions() const { return contentions_.load(std::memory_order_relaxed); }

 private:
  friend struct DescriptorRows;
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;

  bool TryTake() noexcept {
    uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }

  GRANARY_NOINLINE void LockSlow() noexcept {
    contentions_.fetch_add(1, std::memory_order_relaxed);
    for (int spin = 0; spin < 100; ++spin) {
      if (word_.load(std::memory_order_relaxed) == kFree && TryTake()) return;
      Pause();
    }
    while (word_.exchange(kContended, std::memory_order_acquire) != kFree) {
      System::Wait(word_, kContended);
    }
  }

  std::atomic<uint32_t> word_{kFree};
  std::atomic<uint32_t> contentions_{0};
  // times the lock was taken: a reader outside the process detects a change
  std::atomic<uint32_t> turns_{0};
};

template <class M>
class Locked {
 public:
  explicit Locked(M& mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~Locked() { mutex_.Unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  M& mutex_;
};

}  // namespace granary
