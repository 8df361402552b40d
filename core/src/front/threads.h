// Registration of threads: how a thread finds its cache. If the C library registers restartable
// sequences (glibc 2.35 and later), the index is the kernel's concurrency id, or the CPU number on
// kernels before 6.3. Otherwise each of the first threads owns a thread cache, and its index is in
// a RestartArea of Granary's own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"

namespace granary {

enum class CacheOwner : uint8_t { kUndecided, kCpu, kThread };

class Threads {
 public:
  // Chooses the owner of caches; call it once, before the first use of a cache. `cpus` is 0 if the
  // machine has more CPUs than the cache table has rows.
  void Init(unsigned cpus) noexcept;

  // Registers the calling thread; false if the thread uses a shared cache.
  bool Register() noexcept;

  // The thread_area of a thread that uses a shared cache.
  static uintptr_t SharingArea() noexcept;

  CacheOwner owner() const { return owner_; }
  // The number of threads of this process that have registered so far.
  size_t registered() const { return registered_.load(std::memory_order_relaxed); }

  // Sets the function that is called when a thread that owns a cache exits, with the cache's index.
  void OnExit(void (*callback)(size_t index)) { on_exit_ = callback; }

  // For the child of a fork: calls `callback` with the index of each cache that another thread
  // owned.
  void ForgetOthers(void (*callback)(size_t index)) noexcept;

 private:
  friend struct DescriptorRows;
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
  std::atomic<size_t> registered_{0};
  void (*on_exit_)(size_t) = nullptr;
  Slot slot_[kMaxThreadCaches];
};

extern Threads threads __attribute__((visibility("hidden")));

}  // namespace granary
