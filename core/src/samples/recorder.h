// Fills the table of samples. All changes happen under one lock, the last lock in the lock order. A
// signal handler may allocate on a thread that holds a lock of the allocator: its samples are then
// lost, and the objects it frees are freed later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.h"
#include "os/os.h"
#include "pages/page_map.h"
#include "samples/index.h"
#include "samples/table.h"

namespace granary {
struct DescriptorRows;
}

namespace granary::samples {

// A sampled object.
struct Taken {
  void* p;
  SizeClass c;              // kNoClass: a block
  size_t bytes, requested;  // of the object; of the request
  uint64_t nanos;           // CLOCK_MONOTONIC
  uint32_t thread;
  Ends ends = {};  // each 0 or 1
};

struct Beginning {
  uint64_t rate;
  uint64_t nanos, unix_nanos;
};

template <Os System>
class Recorder {
 public:
  constexpr Recorder() = default;

  // Whether samples are recorded, or recorded samples still exist.
  bool Collects() const { return collects_.load(std::memory_order_acquire); }
  // Whether the calling thread may take the lock.
  static bool MayRecord() { return locks_held == 0; }

  // Makes an empty table; false when the system refuses memory. The caller fills the exact figures
  // in the head. Only one thread at a time begins, pauses and discards.
  bool Begin(const Beginning& beginning) noexcept;
  // Switches sampling on at this rate, or off.
  void SetActive(bool active, uint64_t rate) noexcept;
  // Deletes all samples and unmaps their memory.
  void Discard(PageMap& map) noexcept;

  // False if the sample is lost.
  bool Record(PageMap& map, const Taken& taken, const uintptr_t* frames, size_t depth) noexcept;
  // Whether a sample exists at p, which the caller owns.
  bool Knows(const void* p) const noexcept { return index_.Find(AddressOf(p)) != Index::kNone; }
  // Records that p is freed. Returns its bytes, or 0 if the sample was discarded meanwhile.
  size_t Freed(PageMap& map, const void* p, uint64_t nanos, uint32_t thread) noexcept;
  // Records that the program requested another size for p, which did not move.
  void Resized(const void* p, size_t requested) noexcept;
  // For threads that may not record.
  void LoseReentered() noexcept { reentered_.fetch_add(1, std::memory_order_relaxed); }
  void Defer(const void* p) noexcept;
  // Removes an object that Defer stored and returns it for the caller to free; nullptr if there is
  // none.
  void* TakeDeferred() noexcept;
  bool AnyDeferred() const { return deferred_.load(std::memory_order_relaxed); }
  void CountLate(uint64_t samples, uint64_t bytes) noexcept;

  // For threads that read the table with the lock.
  Mutex<System>& mutex() { return mutex_; }
  Head* head() { return Collects() ? table_ : nullptr; }
  Stack* stacks() { return At<Stack>(Place::kStacksAt); }
  uint64_t* frames() { return At<uint64_t>(Place::kFramesAt); }
  Sample* samples() { return At<Sample>(Place::kSamplesAt); }

 private:
  friend struct granary::DescriptorRows;

  template <class T>
  T* At(size_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(table_) + offset);
  }
  uint32_t StackOf(const uintptr_t* frames, size_t depth) noexcept;
  uint32_t NewStack(uint64_t hash, const uintptr_t* frames, size_t depth,
                    uint32_t* bucket) noexcept;
  Sample* NewSample() noexcept;
  void Remove(PageMap& map, Sample& sample, uint64_t nanos, uint32_t thread) noexcept;

  Mutex<System> mutex_;
  std::atomic<bool> collects_{false};
  std::atomic<bool> deferred_{false};
  Head* table_ = nullptr;  // Place::kBytes of memory; nullptr until sampling is first switched on
  uint64_t generation_ = 0;
  std::atomic<uint64_t> reentered_{0};
  Index index_;
};

}  // namespace granary::samples

#include "samples/recorder_impl.h"
