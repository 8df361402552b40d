// How the calling thread finds its cache. Where the C library has registered restartable sequences
// (glibc 2.35 on), by the kernel's concurrency id, or by the CPU number on kernels before 6.3; else
// each of the first threads owns a cache, through an area of the kernel's shape that is all its
// own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"

namespace granary {

enum class CacheOwner : uint8_t { kUndecided, kCpu, kThread };

class Threads {
 public:
  // Decides once, before the first use of a cache. `cpus` is 0 if there are too many to index.
  void Init(unsigned cpus) noexcept;

  // Makes the calling thread known; false if it has to share (see Front).
  bool Register() noexcept;

  // As thread_area, it makes the calling thread share a locked cache with others.
  static uintptr_t SharingArea() noexcept;

  CacheOwner owner() const { return owner_; }
  // Threads that have allocated so far, in this process.
  size_t seen() const { return seen_.load(std::memory_order_relaxed); }

  // Called when a thread that owns a cache ends, with the index of that cache.
  void OnExit(void (*callback)(size_t index)) { on_exit_ = callback; }

  // In the child of a fork: every other thread is gone.
  void ForgetOthers(void (*callback)(size_t index)) noexcept;

 private:
  friend struct Layout;
  struct alignas(kCacheLine) Slot {
    RestartArea area;
    std::atomic<bool> taken{false};
  };

  static void ThreadExit(void* slot) noexcept;
  bool RegisterWithKernel() noexcept;
  bool TakeSlot() noexcept;

  CacheOwner owner_ = CacheOwner::kUndecided;
  bool has_key_ = false;
  unsigned key_ = 0;
  size_t slots_ = 0;
  std::atomic<size_t> seen_{0};
  void (*on_exit_)(size_t) = nullptr;
  Slot slot_[kMaxThreadCaches];
};

extern Threads threads __attribute__((visibility("hidden")));

}  // namespace granary
