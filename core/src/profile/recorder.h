// Fills the table of what sampling has seen. All under one lock, which is the last that is taken.
// Whoever holds a lock of the allocator already, which means that a signal interrupted it, is told
// to do without: its samples are lost, and what it frees waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.h"
#include "os/os.h"
#include "pages/page_map.h"
#include "profile/index.h"
#include "profile/table.h"

namespace granary {
struct Layout;
}

namespace granary::profile {

// An object that was sampled.
struct Taken {
  void* p;
  SizeClass c;              // kNoClass: a large block
  size_t bytes, requested;  // of the object, and asked for
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

  // Whether anything is collected, or was and is still there.
  bool Collects() const { return collects_.load(std::memory_order_acquire); }
  // Whether the calling thread may take the lock.
  static bool MayRecord() { return locks_held == 0; }

  // Makes an empty table; false when the system refuses memory. What is exact in the head is for
  // the caller to fill, who alone begins, pauses and discards.
  bool Begin(const Beginning& beginning) noexcept;
  // Whether samples are taken from here on, and at what rate.
  void SetActive(bool active, uint64_t rate) noexcept;
  // Forgets everything and gives its memory back.
  void Discard(PageMap& map) noexcept;

  // False if the sample is lost.
  bool Record(PageMap& map, const Taken& taken, const uintptr_t* frames, size_t depth) noexcept;
  // Whether a sample lies at p, which the caller owns.
  bool Knows(const void* p) const noexcept { return index_.Find(AddressOf(p)) != Index::kNone; }
  // It is freed. Its bytes, or 0 if it was discarded meanwhile.
  size_t Freed(PageMap& map, const void* p, uint64_t nanos, uint32_t thread) noexcept;
  // It stayed where it is, and the program asked for another size.
  void Resized(const void* p, size_t requested) noexcept;
  // For those who may not record.
  void LoseReentered() noexcept { reentered_.fetch_add(1, std::memory_order_relaxed); }
  void Defer(const void* p) noexcept;
  // One of those set aside by Defer, which is then the caller's to free; nullptr if there is none.
  void* TakeDeferred() noexcept;
  bool AnyDeferred() const { return deferred_.load(std::memory_order_relaxed); }
  void CountLate(uint64_t samples, uint64_t bytes) noexcept;

  // For those who go through it, with the lock.
  Mutex<System>& mutex() { return mutex_; }
  Head* head() { return Collects() ? table_ : nullptr; }
  Stack* stacks() { return At<Stack>(Place::kStacksAt); }
  uint64_t* frames() { return At<uint64_t>(Place::kFramesAt); }
  Sample* samples() { return At<Sample>(Place::kSamplesAt); }

 private:
  friend struct granary::Layout;

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
  Head* table_ =
      nullptr;  // Place::kBytes from here on; nullptr until sampling is first switched on
  uint64_t generation_ = 0;
  std::atomic<uint64_t> reentered_{0};
  Index index_;
};

}  // namespace granary::profile

#include "profile/recorder_impl.h"
