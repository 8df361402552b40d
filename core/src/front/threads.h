// Registration of threads: how a thread finds its cache. The C library registers each thread for
// restartable sequences (glibc 2.35 and later), or Granary does. Then the index is the kernel's
// concurrency id, or the CPU number on kernels before 6.3. Where the kernel refuses, each of the
// first threads owns a thread cache, and its index is in a RestartArea that only Granary writes.
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
  // Whether there are more thread caches than four for each CPU.
  bool Crowded() const noexcept { return taken_.load(std::memory_order_relaxed) > fair_; }
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
  bool RegisterOwnArea() noexcept;
  bool MakeKey() noexcept;
  bool TakeSlot() noexcept;

  CacheOwner owner_ = CacheOwner::kUndecided;
  bool registers_ = false;  // whether Granary registers threads with the kernel
  bool has_key_ = false;
  unsigned key_ = 0;
  size_t fair_ = 0;
  std::atomic<size_t> taken_{0};  // slots
  std::atomic<size_t> registered_{0};
  void (*on_exit_)(size_t) = nullptr;
  Slot slot_[kMaxThreadCaches];
};

extern Threads threads __attribute__((visibility("hidden")));

}  // namespace granary
